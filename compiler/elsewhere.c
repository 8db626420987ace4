#include "compiler/elsewhere.h"

#include <stddef.h>
#include <strings.h>

typedef struct Known {
  const char *word, *hint;
} Known;

static const Known functions[] = {
    {"dense", "write linear"},
    {"fc", "write linear"},
    {"fully_connected", "write linear"},
    {"matmul_bias", "write linear"},
    {"conv", "write conv2d"},
    {"convolution", "write conv2d"},
    {"convtranspose2d", "write conv_transpose2d"},
    {"batch_norm", "write batchnorm"},
    {"batchnorm1d", "write batchnorm"},
    {"batchnorm2d", "write batchnorm"},
    {"bn", "write batchnorm"},
    {"layer_norm", "write layernorm"},
    {"group_norm", "write groupnorm"},
    {"instancenorm2d", "write instance_norm"},
    {"rms_norm", "write rmsnorm"},
    {"max_pool2d", "write maxpool"},
    {"maxpool2d", "write maxpool"},
    {"maxpooling2d", "write maxpool"},
    {"avg_pool2d", "write avgpool"},
    {"avgpool2d", "write avgpool"},
    {"global_avg_pool", "write mean(x, axes=[2, 3])"},
    {"globalaveragepooling2d", "write mean(x, axes=[2, 3])"},
    {"adaptive_avg_pool2d", "write adaptive_avgpool"},
    {"adaptiveavgpool2d", "write adaptive_avgpool"},
    {"adaptive_max_pool2d", "write adaptive_maxpool"},
    {"upsample", "write interpolate(x, scale_factor=2)"},
    {"lstm", "write scan with lstm_cell: docs/language.md, Loops over time"},
    {"gru", "write scan with gru_cell: docs/language.md, Loops over time"},
    {"rnn", "write scan with a step of your own: docs/language.md, Loops over time"},
    {"lstmcell", "write lstm_cell"},
    {"grucell", "write gru_cell"},
    {"multiheadattention", "write attention(q, k, v, heads=…), of what linear layers make of the input"},
    {"multihead_attention", "write attention(q, k, v, heads=…), of what linear layers make of the input"},
    {"scaled_dot_product_attention", "write attention"},
    {"sequential", "write x |> linear(64) |> relu |> linear(10)"},
    {"modulelist", "write for or repeat: each round makes parameters of its own"},
    {"parameter", "write param name: f32[…] = normal(0.02)"},
    {"register_buffer", "write state name: f32[…]"},
    {"dropout2d", "write dropout, which draws for every element"},
    {"view", "write reshape"},
    {"permute", "write transpose(x, [0, 2, 1]), or rearrange with names"},
    {"swapaxes", "write transpose(x, [0, 2, 1]), or rearrange with names"},
    {"t", "write transpose"},
    {"expand_dims", "write unsqueeze"},
    {"cat", "write concat"},
    {"concatenate", "write concat"},
    {"chunk", "write split"},
    {"unbind", "write unstack"},
    {"einops", "write rearrange"},
    {"mm", "write matmul"},
    {"bmm", "write matmul"},
    {"dot", "write matmul, or sum(x * y)"},
    {"range", "write 0..n in a for, arange(n) for a tensor"},
    {"zeros_like", "write 0 * x, or zeros[…]"},
    {"ones_like", "write ones[…]"},
    {"logsoftmax", "write log_softmax"},
    {"logsigmoid", "write log_sigmoid"},
    {"rand", "write uniform([N, D])"},
    {"randn", "write normal([N, D])"},
    {"rand_like", "write uniform(dims(x))"},
    {"randn_like", "write normal(dims(x))"},
    {"randperm", "write permutation(n)"},
    {"multinomial", "draws of classes are argmax(logits - log(-log(uniform(dims(logits)))))"},
    {"nonzero", "how many there are is not known before the program runs; write where(x != 0, …), or topk with the "
                "most there can be"},
    {"masked_select", "how many there are is not known before the program runs; write where(mask, x, 0)"},
    {"unique", "how many there are is not known before the program runs; sort(x) brings equal ones together"},
    {"bincount", "write segment_sum(cast(ones[len(x)], \"f32\"), x, count)"},
    {"take_along_dim", "write take_along"},
    {"scatter_", "write scatter"},
    {"stochastic_depth", "write drop_path"},
    {"take", "write gather"},
    {"masked_fill", "write where(mask, value, x)"},
    {"select", "write where"},
    {"clip", "write clamp"},
    {"max", "write maximum of two, amax over axes"},
    {"min", "write minimum of two, amin over axes"},
    {"swish", "write silu"},
    {"detach", "write stop_gradient"},
    {"no_grad", "write stop_gradient around the value"},
    {"astype", "write cast"},
    {"to", "write cast(x, \"f32\"); the device is chosen by --target"},
    {"float", "write cast(x, \"f32\")"},
    {"crossentropyloss", "write cross_entropy(logits, labels)"},
    {"mse_loss", "write mse"},
    {"mseloss", "write mse"},
    {"l1_loss", "write l1"},
    {"l1loss", "write l1"},
    {"huber_loss", "write huber"},
    {"bce", "write binary_cross_entropy, of logits"},
    {"bceloss", "write binary_cross_entropy, of logits"},
    {"bce_with_logits", "write binary_cross_entropy"},
    {"binary_cross_entropy_with_logits", "write binary_cross_entropy"},
    {"bcewithlogitsloss", "write binary_cross_entropy"},
    {"smooth_l1_loss", "write smooth_l1"},
    {"smoothl1loss", "write smooth_l1"},
    {"hinge_loss", "write hinge"},
    {"nllloss", "write nll_loss"},
    {"size", "write dims(x)[0]"},
    {"shape", "write dims(x)[0], or name the axes in the signature: x: [N, C]"},
    {"numel", "name the axes in the signature, x: [N, C], and write N * C"},
    {"pow", "write x ** y"},
    {"print", "outputs of the model are shown by predict and step; there is no printing while a step runs"},
    {"backward", "gradients and updates follow from `loss` and `optimizer` in train"},
    {"zero_grad", "gradients and updates follow from `loss` and `optimizer` in train"},
};

static const Known words[] = {
    {"step", "the number of the step is known in lr= of an optimizer or a group: lr=1e-3 * minimum(step / 100, 1)"},
    {"return", "a body's value is its last expression: leave the word away"},
    {"def", "write block f(x) { … }, and model for what predict runs"},
    {"fn", "write block f(x) { … }"},
    {"func", "write block f(x) { … }"},
    {"function", "write block f(x) { … }"},
    {"class", "write block or model: layers are called where they are used and make their own parameters"},
    {"from", "functions are built in; write import \"file.nn\" for blocks of another file"},
    {"import", "functions are built in; write import \"file.nn\" for blocks of another file"},
    {"with", "write precision behind a signature, or stop_gradient, for what a context does"},
    {"lambda", "write a block"},
    {"elif", "write else if"},
    {"while", "write repeat n { … }, for i in 0..n { … }, or scan over an axis"},
    {"pass", "a body ends with its value"},
    {"del", "memory is planned: nothing has to be deleted"},
    {"var", "write x = …"},
    {"const", "write let name = … at the top of the file"},
    {"none", "write none, or leave the argument out"},
    {"null", "write none, or leave the argument out"},
    {"true", "write true"},
    {"false", "write false"},
    {"pi", "write 3.141592653589793"},
    {"inf", "write a large number, 1e30"},
    {"self", "layers are called where they are used: linear(x, 10) as fc makes fc.weight and fc.bias"},
};

static const Known modules[] = {
    {"torch", "functions have no module: write relu(x) for torch.relu(x)"},
    {"f", "functions have no module: write relu(x) for F.relu(x)"},
    {"np", "functions have no module: write exp(x) for np.exp(x)"},
    {"tf", "functions have no module: write relu(x) for tf.nn.relu(x)"},
    {"jnp", "functions have no module: write exp(x) for jnp.exp(x)"},
    {"nn", "a layer is called with its input and makes its parameters: linear(x, 10) for nn.Linear(n, 10)(x)"},
    {"self", "layers are called where they are used: linear(x, 10) as fc makes fc.weight and fc.bias"},
    {"optim", "write optimizer adam(lr=1e-3) in train"},
};

static const char *find(const Known *known, size_t n, const char *word) {
  for (size_t i = 0; i < n; i++)
    if (strcasecmp(known[i].word, word) == 0) return known[i].hint;
  return NULL;
}

#define FIND(known, word) find(known, sizeof(known) / sizeof *(known), word)

const char *elsewhere_function(const char *name) { return FIND(functions, name); }
const char *elsewhere_word(const char *word) { return FIND(words, word); }

const char *elsewhere_module(const char *name) {
  const char *hint = FIND(modules, name);
  return hint ? hint : "values have no methods: write relu(x) or x |> relu for x.relu(), dims(x)[0] for x.shape[0]";
}
