"""A hundred architectures of timm: the first, in an order drawn by random.Random(0), that have at most 50 million parameters."""
from __future__ import annotations

import torch

NAMES = '''
resnet101d regnetz_b16_evos crossvit_18_240 efficientnetv2_s tf_efficientnetv2_b3 cs3darknet_focus_x deit3_small_patch16_384 bat_resnext26ts
nf_seresnet26 dla102x2 tiny_vit_11m_224 mobileone_s2 mvitv2_tiny densenet161 resnet33ts efficientformerv2_s2 maxvit_pico_rw_256 resnetv2_50d
efficientnet_el_pruned coatnet_0_rw_224 tf_efficientnet_b2 res2net101_26w_4s efficientnet_b3_g8_gn rexnetr_130 mobilenetv1_100h eca_halonext26ts
eca_botnext26ts_256 coatnet_rmlp_nano_rw_224 vit_pe_spatial_tiny_patch16_512 regnetz_040_h efficientnet_b3 mobilenet_edgetpu_v2_m resnet50_mlp
resnet101 iformer_l_distilled ecaresnet50d_pruned tf_efficientnet_b1 xcit_nano_12_p16_224 darknet17 hardcorenas_e nf_regnet_b3 coatnet_1_rw_224
tf_efficientnet_el mobileone_s0 resnetv2_18 maxvit_tiny_tf_384 swinv2_cr_small_384 fastvit_sa24 dla102 cs3darknet_focus_m repvit_m1_5 resnetaa101d
nfnet_l0 hardcorenas_c coatnet_bn_0_rw_224 vit_dpwee_patch16_reg1_gap_256 tf_efficientnet_lite4 seresnext26t_32x4d convit_tiny
legacy_seresnext101_32x4d dpn92 regnetz_d32 shvit_s3 mobilenetv2_050 hrnet_w30 repghostnet_130 ghostnetv3_160 maxvit_tiny_tf_512 cs3darknet_l
resnext50_32x4d nf_seresnet101 vit_small_patch16_224 coat_lite_mini tinynet_e convnext_nano_ols cs3sedarknet_xdw legacy_xception seresnet34
efficientvim_m3_dist mobilenet_edgetpu_100 convnextv2_atto resnetv2_50t regnetx_016 skresnet50 volo_d1_384 vit_small_patch32_384
tf_mobilenetv3_small_minimal_100 starnet_s050 pvt_v2_b0 gcresnet50t mixer_s16_224 resnet34d cpubone_b0_bfrobust deit3_small_patch16_224 starnet_s150
vit_pe_core_tiny_patch16_384 nf_regnet_b1 mobilenetv4_hybrid_medium nf_ecaresnet26 gmixer_12_224
'''.split()

SIZES = (64, 96, 128, 160, 192, 224, 240, 256, 384, 512)


def make(name: str):
    """The model at the smallest image that it takes."""
    import timm
    for size in SIZES:
        try:
            torch.manual_seed(0)
            module = created(timm, name, size)
            x = torch.randn(2, 3, size, size)
            with torch.no_grad():
                module.eval()(x)
            return module, (x,), {}
        except (RuntimeError, AssertionError, ValueError, IndexError, ZeroDivisionError):
            continue
    raise ValueError(f'{name} takes no image of {SIZES}')


def created(timm, name: str, size: int) -> torch.nn.Module:
    try:
        return timm.create_model(name, pretrained=False, num_classes=10, img_size=size)
    except (TypeError, AssertionError, RuntimeError, ValueError):
        return timm.create_model(name, pretrained=False, num_classes=10)
