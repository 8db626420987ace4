"""A compiled model as a library: steps, predictions, tensors in and out, errors, torch's tensors."""
import copy
import gc
import os
import pickle
import subprocess
import threading
import time
import weakref

import numpy as np
import pytest
import torch

import nnc

NNC = os.environ.get('NNC', 'nnc')
NN = '''
dim N = 16

model net(image: f32[N, 4, 4]) {
    image |> flatten |> linear(16) as hidden |> relu |> linear(3) as scores
}

train {
    data      image, label = npy("image.npy", "label.npy")
    eval      image, label = npy("image.npy", "label.npy")
    scores    = net(image)
    loss      cross_entropy(scores, label)
    metric    accuracy(scores, label)
    optimizer momentum(lr=0.1, momentum=0.9)
    steps     200
}
'''


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('library')
    (folder / 'net.nn').write_text(NN)
    nnc.compile(folder / 'net.nn', output=folder / 'libnet.so', compiler=NNC)
    image, label = batch(1, 64)
    np.save(folder / 'image.npy', image)
    np.save(folder / 'label.npy', label.astype('i4'))
    return folder


@pytest.fixture
def net(folder):
    return nnc.load(folder / 'libnet.so', seed=1)


def batch(seed=0, n=16):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 4, 4)).astype('f4'), random.integers(0, 3, n)


def module_of(net):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.scores = torch.nn.Linear(16, 16), torch.nn.Linear(16, 3)

        def forward(self, image):
            return self.scores(torch.relu(self.hidden(image.flatten(1))))
    module = Net()
    module.load_state_dict({name: torch.from_numpy(value) for name, value in net.state_dict().items()})
    return module


def test_tensors(net):
    assert net.name == 'net' and net.info.step_records == 16 and net.info.arena_bytes > 0
    assert net.tensors['image'] == nnc.library.Tensor('image', 'input', 'f32', (16, 4, 4))
    assert list(net.parameters()) == ['hidden.weight', 'hidden.bias', 'scores.weight', 'scores.bias']
    view = net['hidden.weight']
    view[:] = 2
    assert net.state_dict()['hidden.weight'].min() == 2
    net['hidden.weight'] = np.arange(256, dtype='f8').reshape(16, 16).T   # another type, other strides
    assert view[1, 0] == 1 and view[0, 1] == 16
    net.close()
    assert view[1, 0] == 1   # the view keeps the memory


def test_steps_are_torch(net):
    module = module_of(net)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for i in range(100):
        image, label = batch(i)
        measured = net.step(image=image, label=label)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(image)), torch.from_numpy(label))
        loss.backward()
        optimizer.step()
        assert abs(measured['loss'] - loss.item()) < 1e-5 * max(1, loss.item())
    # and back: the module with the parameters of the net has its loss
    module = module_of(net)
    image, label = batch(7)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(image)), torch.from_numpy(label)).item()
    assert abs(net.evaluate(image=image, label=label)['loss'] - loss) < 1e-6
    assert np.allclose(net.predict(image=image[:5]), module(torch.from_numpy(image[:5])).detach().numpy(), atol=1e-5)


def test_values_of_a_step(net):
    assert 'grad.hidden.weight' in net.values and net.values['output.net'].shape == (16, 3)
    module, (image, label) = module_of(net), batch()
    scores = module(torch.from_numpy(image))
    loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(label))
    loss.backward()
    measured, values = net.step_values(['output.*', 'grad.*'], image=image, label=label)
    assert set(values) == {'output.net'} | {f'grad.{name}' for name in net.parameters()} and net.steps_done == 1
    assert abs(measured['loss'] - loss.item()) < 1e-6 and np.allclose(values['output.net'], scores.detach(), atol=1e-6)
    for name, p in module.named_parameters():
        assert np.allclose(values[f'grad.{name}'], p.grad, atol=1e-6), name
        assert np.allclose(net[name], (p - 0.1 * p.grad).detach(), atol=1e-6)
    only = net.step_values('grad.scores.bias', {'image': image, 'label': label})[1]
    assert list(only) == ['grad.scores.bias'] and np.isfinite(only['grad.scores.bias']).all()
    with pytest.raises(KeyError, match='no value grad.nothing'):
        net.step_values('grad.nothing', image=image, label=label)
    net.begin_text()


def test_torch_tensors(net, folder):
    other = nnc.load(folder / 'libnet.so', seed=1)
    image, label = batch()
    a = net.step(image=image, label=label)
    b = other.step({'image': torch.from_numpy(image), 'label': torch.from_numpy(label)})
    assert a == b
    weight = torch.from_dlpack(net['hidden.weight'])
    assert weight.data_ptr() == net['hidden.weight'].ctypes.data   # no copy
    weight.zero_()
    assert not net['hidden.weight'].any()
    net['hidden.weight'] = torch.ones(16, 16, requires_grad=True).T   # not row-major
    net['hidden.bias'] = torch.full((16,), 0.5, dtype=torch.bfloat16)
    assert net['hidden.weight'].min() == 1 and net['hidden.bias'][3] == 0.5
    net.load_state_dict(module_of(other).state_dict())
    assert all((net[name] == value).all() for name, value in other.parameters().items())
    with pytest.raises(KeyError, match='missing: hidden.bias'):
        net.load_state_dict({'hidden.weight': weight})
    transposed = torch.from_numpy(image).permute(0, 2, 1)
    assert np.allclose(net.predict(image=transposed), net.predict(image=transposed.numpy().copy()))


@pytest.mark.parametrize('dtype', ['i1', 'i2', 'u2', 'u4', '>i4', 'u1', 'i8'])
def test_integers(folder, dtype):
    image, label = batch()
    losses = [nnc.load(folder / 'libnet.so', seed=1).step(image=image, label=value)['loss']
              for value in (label, label.astype(dtype))]
    assert losses[0] == losses[1]


@pytest.mark.parametrize('dtype', [torch.int8, torch.int16, torch.int32])
def test_torch_integers(folder, dtype):
    image, label = batch()
    columns = torch.from_numpy(np.stack([label, label])).to(dtype).T
    losses = [nnc.load(folder / 'libnet.so', seed=1).step(image=image, label=value)['loss']
              for value in (label, columns[:, 0].contiguous(), columns[:, 1])]
    assert losses == [losses[0]] * 3


def test_own_data_and_files(folder):
    net = nnc.load(folder / 'libnet.so', data=folder, seed=3)
    for _ in range(5):
        net.step()
    net.save(folder / 'five.safetensors')
    rest = [net.step()['loss'] for _ in range(5)]
    again = nnc.load(folder / 'libnet.so', data=folder, checkpoint=folder / 'five.safetensors')
    assert again.steps_done == 5 and again.seed == 3 and [again.step()['loss'] for _ in range(5)] == rest
    assert again.evaluate() == net.evaluate()
    net.save(folder / 'weights.safetensors', weights=True)
    again.load(folder / 'weights.safetensors', weights=True)
    assert again.evaluate() == net.evaluate()


def test_numbers(net):
    image, label = batch()
    assert net.learning_rate == pytest.approx(0.1) and net.total_steps == 200
    before = net.state_dict()
    net.learning_rate = 0
    net.step(image=image, label=label)
    assert all((net[name] == value).all() for name, value in before.items())
    net.learning_rate = None
    net.steps_done = 150
    assert net.learning_rate == pytest.approx(0.1) and net.info.step == 150


def test_errors(net, folder):
    image, label = batch()
    for given, status in [({'image': image}, nnc.Status.NAME), ({'image': image, 'label': label + 3}, nnc.Status.VALUE),
                          ({'image': image[:3], 'label': label}, nnc.Status.SHAPE),
                          ({'image': image, 'label': label.astype('f4')}, nnc.Status.TYPE), ({}, nnc.Status.DATA)]:
        with pytest.raises(nnc.Error) as raised:
            net.step(given)
        assert raised.value.status == status
    with pytest.raises(nnc.Error, match='nowhere'):
        nnc.load(folder / 'libnet.so', weights='nowhere')
    for seed in -1, 2 ** 63, 2 ** 64:
        with pytest.raises(ValueError, match=f'seed {seed}: from 0'):
            nnc.load(folder / 'libnet.so', seed=seed)
    with pytest.raises(OSError, match=f'^{folder}/net.nn: a text, to be compiled first: nnc.compile$'):
        nnc.load(folder / 'net.nn')
    with pytest.raises(OSError, match=f'^{folder}/image.npy: '):
        nnc.load(folder / 'image.npy')
    with pytest.raises(nnc.Error, match='the options allow') as raised:
        nnc.load(folder / 'libnet.so', memory=100)
    assert raised.value.status == nnc.Status.MEMORY
    with pytest.raises(TypeError, match='complex'):
        net.step(image=image.astype('c8'), label=label)
    for value in torch.zeros(16, 4, 4, dtype=torch.complex64), torch.zeros(16, 4, 4, device='meta'):
        net.step(image=torch.from_numpy(image), label=label)   # whose place is not taken again
        with pytest.raises(TypeError, match='image: no '):
            net.step(image=value, label=label)
    net['scores.bias'] = torch.ones(3, 2, dtype=torch.bfloat16, requires_grad=True)[:, 0]
    assert (net['scores.bias'] == 1).all()
    for value in 0.0, np.zeros(()), torch.zeros(()):   # a number is no tensor of many
        with pytest.raises(nnc.Error, match=r'caller.s has \[\]'):
            net['hidden.weight'] = value
        with pytest.raises(nnc.Error, match=r'caller.s has \[\]'):
            net.step(image=value, label=label)
    with pytest.raises(nnc.Error, match='unknown'):
        (folder / 'wrong.nn').write_text(NN.replace('relu', 'rely'))
        nnc.compile(folder / 'wrong.nn', compiler=NNC)
    with pytest.warns(UserWarning, match='planned for'):
        nnc.load(folder / 'libnet.so', threads=1000)
    part = nnc.load(folder / 'libnet.so', functions=['predict'])
    with pytest.raises(nnc.Error) as raised:
        part.step(image=image, label=label)
    assert raised.value.status == nnc.Status.FUNCTION


def test_threads(folder):
    def train(seed, losses):
        net = nnc.load(folder / 'libnet.so', threads=1, seed=seed)
        losses.append([net.step(image=image, label=label)['loss'] for _ in range(100)])
    image, label = batch()
    alone, beside = [], []
    train(1, alone)
    threads = [threading.Thread(target=train, args=(1, beside)) for _ in range(2)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert beside == alone * 2


def test_two_threads_of_a_net(folder):
    net = nnc.load(folder / 'libnet.so', threads=1, seed=1)
    image, _ = batch(n=200000)
    other = np.zeros_like(image)
    expected, ended, refused = net.predict(image=image), threading.Event(), []

    def disturb():
        while not ended.is_set():
            try:
                net.predict(image=other)
            except nnc.Error as error:
                refused.append(error.status)
    thread = threading.Thread(target=disturb)
    thread.start()
    for _ in range(20):
        try:
            assert (net.predict(image=image) == expected).all()
        except nnc.Error as error:
            refused.append(error.status)
    ended.set()
    thread.join()
    assert set(refused) == {nnc.Status.BUSY}


def test_what_a_thread_took_goes_with_it(net):
    image, _ = batch()
    kept = []

    def predict():
        net.predict(image=image)
        kept.append(weakref.ref(next(iter(net._inputs.__dict__.values()))))
    thread = threading.Thread(target=predict)
    thread.start()
    thread.join()
    gc.collect()
    assert kept[0]() is None
    net.predict(image=image)
    assert len(net._inputs.__dict__) == 1


@pytest.mark.filterwarnings('error')
def test_is_not_copied(net):
    for way in copy.copy, copy.deepcopy, pickle.dumps:
        with pytest.raises(TypeError, match='cannot be copied or pickled'):
            way(net)
    gc.collect()
    assert net.info.step == 0


def test_compile_again(folder, tmp_path):
    nets = [nnc.compile(folder / 'net.nn', output=tmp_path / 'libagain.so', compiler=NNC, N=n) for n in (4, 8)]
    assert [net.info.batch for net in nets] == [4, 8]


def test_compile(folder):
    net = nnc.compile(folder / 'net.nn', compiler=NNC, dtype='f64', memory_budget='1MiB', N=8, options={'threads': 1})
    assert net.info.batch == 8 and net['hidden.weight'].dtype == np.float64 and net.info.threads == 1


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4 * 36, 3)

    def forward(self, image):
        return self.head(self.body(image).flatten(1))


def test_round_trip(tmp_path):
    """A module of torch, 100 steps in nnc on batches of a loop in Python, and back: the loss of both is the same, and it
    is that of 100 steps in torch."""
    torch.manual_seed(1)
    cross_entropy, module = torch.nn.functional.cross_entropy, Small().double()
    batches = [(torch.randn(8, 1, 6, 6).double(), torch.randint(0, 3, (8,))) for _ in range(100)]
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    nnc.from_torch(module, batches[0][0], str(tmp_path / 'small.nn'), loss=cross_entropy, optimizer=optimizer)
    net = nnc.compile(tmp_path / 'small.nn', compiler=NNC, dtype='f64',
                      options={'weights': tmp_path / 'small.safetensors'})
    for image, label in batches:
        measured = net.step(image=image, label=label)
        optimizer.zero_grad()
        loss = cross_entropy(module(image), label)
        loss.backward()
        optimizer.step()
        assert abs(measured['loss'] - loss.item()) <= 1e-9 * abs(loss.item())
    back = Small().double()
    back.load_state_dict({name: torch.from_numpy(value) for name, value in net.state_dict().items()}, strict=False)
    image, label = batches[0]
    with torch.no_grad():
        mine, theirs = cross_entropy(back.eval()(image), label).item(), cross_entropy(module.eval()(image), label).item()
    assert abs(net.evaluate(image=image, label=label)['loss'] - mine) <= 1e-12 * mine
    assert abs(mine - theirs) <= 1e-9 * theirs


@pytest.mark.skipif('BENCH' not in os.environ, reason='a timing: BENCH=1 asks for it')
def test_time(folder):
    """A step from Python costs at most 20 us more than one of the executable."""
    subprocess.run([NNC, folder / 'net.nn', '-o', folder / 'net'], check=True)
    out = subprocess.run([folder / 'net', 'bench', '--steps=5000', '--threads=1'], capture_output=True, text=True).stdout
    own = float(out.split('step time')[1].split()[0]) * 1e3
    net, (image, label) = nnc.load(folder / 'libnet.so', threads=1), batch()
    for kind, inputs in [('numpy', (image, label)), ('torch', (torch.from_numpy(image), torch.from_numpy(label)))]:
        times = []
        for _ in range(5000):
            start = time.perf_counter()
            net.step(image=inputs[0], label=inputs[1])
            times.append(time.perf_counter() - start)
        print(f'{kind}: {1e6 * sorted(times)[2500]:.1f} us, the executable {own:.1f} us')
        assert 1e6 * sorted(times)[2500] < own + 20


PHASES = '''
model left(x: f32[8, 3]) { x |> linear(1) }

model right(x: f32[8, 3]) { x |> linear(1) }

train {
    data x = npy("x.npy")
    phase often {
        loss       mean(square(left(x)))
        optimizer  sgd(lr=0.1)
        parameters left
    }
    phase seldom {
        loss       mean(square(right(x) - 1))
        optimizer  sgd(lr=0.1)
        parameters right
    } every 2
}
'''


def test_the_loss_of_a_phase_whose_turn_it_is_not(tmp_path):
    (tmp_path / 'phases.nn').write_text(PHASES)
    net = nnc.compile(tmp_path / 'phases.nn', compiler=NNC)
    x = np.ones((8, 3), 'f4')
    of = [net.step(x=x) for _ in range(4)]
    assert [[np.isnan(m[f'{phase}.loss']) for m in of] for phase in ('often', 'seldom')] == [[False] * 4, [True, False, True, False]]


MODELS = '''
dim N = 4
dim M = 3

model a(x: f32[N, 2], w: f32[3]) { linear(x, 1) + mean(w) }

model b(y: f32[M, 2]) { linear(y, 1) }

train {
    data      w = safetensors("w.safetensors", fields=["w"], whole=true)
    data      x = safetensors("d.safetensors", fields=["x"])
    z         = a(x, w)
    loss      mean(z * z) + mean(b(normal([M, 2])))
    optimizer sgd(lr=0.1)
    epochs    2
}
'''


def test_predictions_of_any_number_of_records(tmp_path):
    """A whole input has none, and another model has another batch."""
    (tmp_path / 'models.nn').write_text(MODELS)
    net = nnc.compile(tmp_path / 'models.nn', compiler=NNC)
    (a, a_bias, b, b_bias), w = net.parameters().values(), np.array([1, 2, 6], 'f4')
    for n in (1, 3, 4, 5, 9):
        x = np.random.default_rng(n).normal(size=(n, 2)).astype('f4')
        assert np.allclose(net.predict(x=x, w=w), x @ a.T + a_bias + 3, atol=1e-6)
        assert np.allclose(net.predict(y=x, model='b'), x @ b.T + b_bias, atol=1e-6)
    with pytest.raises(nnc.Error, match=r"w has shape \[3\], the caller's has \[4\]"):
        net.predict(x=x, w=np.ones(4, 'f4'))
