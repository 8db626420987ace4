"""Architectures of transformers, each from a small configuration and without downloads."""
from __future__ import annotations

import torch

TEXT = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
IMAGE = dict(image_size=32, num_channels=3)
LLAMA = dict(TEXT, num_key_value_heads=2, pad_token_id=0)

# architecture: (class, its configuration, what it is called with)
ARCHITECTURES = {
    'gpt2': ('GPT2LMHeadModel', dict(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=4), 'tokens'),
    'llama': ('LlamaForCausalLM', LLAMA, 'tokens'),
    'qwen2': ('Qwen2ForCausalLM', LLAMA, 'tokens'),
    'mistral': ('MistralForCausalLM', dict(LLAMA, sliding_window=8), 'tokens'),
    'gemma2': ('Gemma2ForCausalLM', dict(LLAMA, head_dim=8, query_pre_attn_scalar=8, sliding_window=8), 'tokens'),
    'phi': ('PhiForCausalLM', dict(TEXT, pad_token_id=0), 'tokens'),
    'bert': ('BertForSequenceClassification', TEXT, 'tokens'),
    'roberta': ('RobertaForMaskedLM', dict(TEXT, pad_token_id=1), 'tokens'),
    'distilbert': ('DistilBertForSequenceClassification', dict(vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64), 'tokens'),
    'albert': ('AlbertForSequenceClassification', dict(TEXT, embedding_size=16), 'tokens'),
    'electra': ('ElectraForPreTraining', dict(TEXT, embedding_size=16), 'tokens'),
    'deberta': ('DebertaForSequenceClassification', dict(TEXT, relative_attention=True, pos_att_type=['c2p', 'p2c'], type_vocab_size=0), 'tokens'),
    't5': ('T5ForConditionalGeneration', dict(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0), 'both'),
    'bart': ('BartForConditionalGeneration', dict(vocab_size=100, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                                  encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64), 'both'),
    'vit': ('ViTForImageClassification', dict(TEXT, **IMAGE, patch_size=8), 'image'),
    'swin': ('SwinForImageClassification', dict(IMAGE, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4), 'image'),
    'clip': ('CLIPModel', dict(text_config=dict(TEXT, projection_dim=16, eos_token_id=99), vision_config=dict(TEXT, **IMAGE, patch_size=8, projection_dim=16), projection_dim=16), 'clip'),
    'whisper': ('WhisperForConditionalGeneration', dict(vocab_size=100, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                                        encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=16, max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                                        decoder_start_token_id=1), 'audio'),
    'wav2vec2': ('Wav2Vec2ForCTC', dict(TEXT, conv_dim=[16, 16], conv_stride=[5, 2], conv_kernel=[10, 3], num_feat_extract_layers=2, num_conv_pos_embeddings=4,
                                        num_conv_pos_embedding_groups=2, mask_time_prob=0.0, layerdrop=0.0), 'wave'),
    'mamba': ('MambaForCausalLM', dict(vocab_size=100, hidden_size=16, num_hidden_layers=2, state_size=4), 'tokens'),
    'gpt_neox': ('GPTNeoXForCausalLM', dict(TEXT, use_parallel_residual=True), 'tokens'),
    'opt': ('OPTForCausalLM', dict(vocab_size=100, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=32), 'tokens'),
    'bloom': ('BloomForCausalLM', dict(vocab_size=100, hidden_size=32, n_layer=2, n_head=4), 'tokens'),
    'mobilevit': ('MobileViTForImageClassification', dict(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], num_attention_heads=4), 'image64'),
    'segformer': ('SegformerForSemanticSegmentation', dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16), 'image64'),
}


def inputs(kind: str) -> tuple[tuple, dict]:
    tokens = torch.randint(3, 99, (2, 10))
    if kind == 'tokens':
        return (tokens,), {}
    if kind == 'both':
        return (), dict(input_ids=tokens, decoder_input_ids=torch.randint(3, 99, (2, 6)))
    if kind == 'clip':
        tokens[:, -1] = 99
        return (), dict(input_ids=tokens, pixel_values=torch.randn(2, 3, 32, 32))
    if kind == 'audio':
        return (), dict(input_features=torch.randn(2, 16, 32), decoder_input_ids=torch.randint(3, 99, (2, 6)))
    if kind == 'wave':
        return (torch.randn(2, 200),), {}
    size = int(kind[5:] or 32)
    return (torch.randn(2, 3, size, size),), {}


class Plain(torch.nn.Module):
    """What the model computes of its inputs, without the containers and options of transformers."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, *args, **kwargs):
        out = self.model(*args, **kwargs, return_dict=True)
        return out.logits if hasattr(out, 'logits') else (out.logits_per_image, out.text_embeds, out.image_embeds)


def make(name: str):
    import transformers
    kind, settings, called_with = ARCHITECTURES[name]
    cls = getattr(transformers, kind)
    config = cls.config_class(**settings)
    config.use_cache = False
    config._attn_implementation = 'sdpa' if cls._supports_sdpa else 'eager'
    return (Plain(cls(config)), *inputs(called_with))
