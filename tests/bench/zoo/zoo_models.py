"""The models of scripts/zoo: a function for each that makes it with a loss and an example."""
import importlib

import torch
import zoo_users
from torch import nn
from zoo_case import SAMPLES, Case, Entry

CLASSES = 1000


def entries(families):
    """The entries of families."""
    return [entry for family in families for entry in LISTS[family]()]


# torchvision: all classification models at a small image, where the model allows one.
IMAGE = {"inception_v3": 96, "vit_h_14": 56} | dict.fromkeys(
    ["efficientnet_v2_l", "regnet_x_32gf", "regnet_x_8gf", "regnet_y_128gf", "regnet_y_16gf",
     "regnet_y_1_6gf", "regnet_y_32gf", "regnet_y_3_2gf", "regnet_y_800mf", "regnet_y_8gf",
     "resnet101", "resnet152", "resnet34", "resnext101_32x8d", "resnext101_64x4d",
     "resnext50_32x4d", "shufflenet_v2_x2_0", "swin_b", "swin_s", "swin_v2_b", "swin_v2_s",
     "swin_v2_t", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19",
     "vgg19_bn", "vit_b_16", "vit_l_16", "vit_l_32", "wide_resnet101_2", "wide_resnet50_2"], 32)
# Models above 200 million parameters: the most blocks that each of their stages keeps.
CUT = {"vit_l_16": 4, "vit_l_32": 4, "vit_h_14": 2, "regnet_y_128gf": 1}


def cut(model, blocks):
    """Removes all but the first blocks of every stage."""
    stages = getattr(model, "trunk_output", None) or [model.encoder.layers]
    for stage in stages:
        for name in list(stage._modules)[blocks:]:
            del stage._modules[name]
    return model


def auxiliary_loss(outputs, labels):
    """The loss of GoogLeNet and Inception, which train with further heads."""
    if isinstance(outputs, torch.Tensor):
        return nn.functional.cross_entropy(outputs, labels)
    first, *others = [x for x in outputs if x is not None]
    total = nn.functional.cross_entropy(first, labels)
    for other in others:
        total = total + 0.3 * nn.functional.cross_entropy(other, labels)
    return total


def torchvision_case(name):
    import torchvision
    size = IMAGE.get(name, 64)
    options = {"image_size": size} if name.startswith("vit_") else {}
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = False
    if name == "inception_v3":
        options["aux_logits"] = False  # that head needs an image of 299 x 299 pixels
    if name == "maxvit_t":  # windows of 7 x 7 pixels need an image of 224 x 224 pixels
        model = torchvision.models.MaxVit(
            (size, size), stem_channels=64, partition_size=2, block_channels=[64, 128, 256, 512],
            block_layers=[2, 2, 5, 2], head_dim=32, stochastic_depth_prob=0.2)
    else:
        model = torchvision.models.get_model(name, weights=None, **options)
    if name in CUT:
        model = cut(model, CUT[name])
    loss = auxiliary_loss if name in ("googlenet", "inception_v3") else nn.CrossEntropyLoss()
    return Case(model, loss, torch.randn(SAMPLES, 3, size, size),
                torch.randint(0, CLASSES, (SAMPLES,)))


def torchvision_models():
    import torchvision
    names = torchvision.models.list_models(module=torchvision.models)
    return [Entry("torchvision", name, lambda name=name: torchvision_case(name))
            for name in names if "quantized" not in name]


# timm: (name, image size, options), one or more of every family.
TIMM = [
    ("resnet18", 64), ("resnet26d", 64), ("resnet50", 64), ("resnext50_32x4d", 64),
    ("seresnet50", 64), ("ecaresnet26t", 64), ("resnetaa50", 64), ("res2net50_26w_4s", 64),
    ("resnest14d", 64), ("skresnet18", 64), ("selecsls42", 64), ("dpn48b", 64), ("dla34", 64),
    ("hrnet_w18_small", 64), ("vgg11", 64), ("vovnet39a", 64), ("ese_vovnet19b_dw", 64),
    ("densenet121", 64), ("xception41", 64), ("inception_v3", 160), ("inception_v4", 96),
    ("inception_resnet_v2", 96), ("inception_next_tiny", 32), ("mobilenetv2_050", 64),
    ("mobilenetv3_small_050", 64), ("mobilenetv4_conv_small", 64),
    ("mobilenetv4_hybrid_medium", 64),
    ("mnasnet_050", 64), ("spnasnet_100", 64), ("fbnetc_100", 64), ("fbnetv3_b", 64),
    ("hardcorenas_a", 64), ("lcnet_050", 64), ("tinynet_a", 64), ("ghostnet_050", 64),
    ("ghostnetv2_100", 64), ("efficientnet_b0", 64), ("tf_efficientnet_b0", 64),
    ("tf_efficientnetv2_b0", 64), ("efficientnet_es", 64), ("mixnet_s", 64), ("semnasnet_050", 64),
    ("rexnet_100", 64), ("rexnetr_100", 64), ("repvgg_a0", 64), ("mobileone_s0", 64),
    ("regnetx_002", 64), ("regnety_002", 64), ("regnetz_b16", 64), ("nf_regnet_b0", 64),
    ("nf_resnet26", 64), ("dm_nfnet_f0", 64), ("eca_nfnet_l0", 64), ("resnetv2_50x1_bit", 64),
    ("resnetv2_50", 64), ("cspresnet50", 64), ("cspdarknet53", 64), ("darknet53", 64),
    ("darknetaa53", 64), ("gernet_s", 64), ("convmixer_768_32", 64), ("convnext_atto", 64),
    ("convnextv2_atto", 64), ("hgnet_tiny", 64), ("hgnetv2_b0", 64), ("pvt_v2_b0", 64),
    ("poolformer_s12", 64), ("poolformerv2_s12", 64), ("caformer_s18", 64), ("convformer_s18", 32),
    ("edgenext_xx_small", 64), ("fastvit_t8", 64), ("mobilevit_xxs", 64), ("mobilevitv2_050", 64),
    ("efficientformer_l1", 224), ("efficientformerv2_s0", 224), ("efficientvit_b0", 64),
    ("efficientvit_m0", 224), ("repvit_m0_9", 64), ("repghostnet_050", 64), ("starnet_s1", 64),
    ("focalnet_tiny_srf", 64), ("mambaout_femto", 64), ("rdnet_tiny", 64), ("shvit_s1", 64),
    ("swiftformer_xs", 224), ("vit_tiny_patch16_224", 224), ("vit_small_patch32_224", 224),
    ("deit_tiny_patch16_224", 224), ("deit_tiny_distilled_patch16_224", 64),
    ("deit3_small_patch16_224", 64), ("beit_base_patch16_224", 64, {"depth": 2}),
    ("beitv2_base_patch16_224", 64, {"depth": 2}), ("eva02_tiny_patch14_224", 224, {"depth": 2}),
    ("vit_relpos_small_patch16_224", 64, {"depth": 2}), ("vit_srelpos_small_patch16_224", 64),
    ("vit_medium_patch16_gap_240", 64, {"depth": 2}), ("vit_small_r26_s32_224", 64),
    ("vit_tiny_r_s16_p8_224", 64), ("vitamin_small_224", 64), ("hiera_tiny_224", 64),
    ("mvitv2_tiny", 64), ("swin_tiny_patch4_window7_224", 64),
    ("swinv2_tiny_window8_256", 64), ("swinv2_cr_tiny_224", 64), ("maxvit_nano_rw_256", 64),
    ("coatnet_nano_rw_224", 64), ("maxxvit_rmlp_nano_rw_256", 64), ("coat_tiny", 64),
    ("coat_lite_tiny", 64), ("crossvit_tiny_240", 240), ("cait_xxs24_224", 64),
    ("convit_tiny", 64), ("davit_tiny", 64), ("gcvit_xxtiny", 64), ("levit_128s", 64),
    ("mixer_s32_224", 64), ("gmlp_s16_224", 64), ("resmlp_12_224", 64), ("nest_tiny", 64),
    ("nextvit_small", 64), ("pit_ti_224", 64), ("sequencer2d_s", 64), ("tnt_s_patch16_224", 64),
    ("tresnet_m", 64), ("twins_pcpvt_small", 64), ("twins_svt_small", 64),
    ("visformer_tiny", 64),
    ("volo_d1_224", 64), ("xcit_nano_12_p8_224", 64), ("halonet26t", 256), ("botnet26t_256", 64),
    ("lambda_resnet26t", 64), ("sehalonet33ts", 256), ("gcresnet33ts", 64), ("haloregnetz_b", 224),
    ("bat_resnext26ts", 256), ("tiny_vit_5m_224", 64), ("samvit_base_patch16_224", 64,
                                                        {"depth": 2}),
    ("naflexvit_base_patch16_gap", 64, {"depth": 2}), ("aimv2_large_patch14_224", 64,
                                                       {"depth": 2}),
]


def timm_case(name, size, options):
    import timm
    try:
        model = timm.create_model(name, pretrained=False, num_classes=CLASSES, img_size=size,
                                  **options)
    except TypeError:  # a model for all sizes
        model = timm.create_model(name, pretrained=False, num_classes=CLASSES, **options)

    def loss(outputs, labels):
        parts = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return sum(nn.functional.cross_entropy(part, labels) for part in parts) / len(parts)
    return Case(model, loss, torch.randn(SAMPLES, 3, size, size),
                torch.randint(0, CLASSES, (SAMPLES,)))


def timm_models():
    return [Entry("timm", name, lambda name=name, size=size, options=options: timm_case(
        name, size, options[0] if options else {})) for name, size, *options in TIMM]


# transformers: (class, config class, options of the config, fields of the example).
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "vocab_size": 99}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 99}
DECODER = SMALL | {"num_key_value_heads": 2}
SEQ2SEQ = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
           "vocab_size": 99, "max_position_embeddings": 32}
VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 64, "image_size": 32, "patch_size": 8}
AUDIO = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "conv_dim": (32, 32), "conv_stride": (5, 2),
         "conv_kernel": (10, 3), "num_feat_extract_layers": 2, "apply_spec_augment": False,
         "vocab_size": 32, "layerdrop": 0.0, "num_conv_pos_embeddings": 16,
         "num_conv_pos_embedding_groups": 2}
TRANSFORMERS = [
    ("BertForMaskedLM", "BertConfig", SMALL, "tokens"),
    ("RobertaForSequenceClassification", "RobertaConfig", SMALL | {"max_position_embeddings": 40},
     "classes"),
    ("DistilBertForMaskedLM", "DistilBertConfig",
     {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 99}, "tokens"),
    ("AlbertForSequenceClassification", "AlbertConfig", SMALL | {"embedding_size": 16}, "classes"),
    ("ElectraForPreTraining", "ElectraConfig", SMALL | {"embedding_size": 16}, "bits"),
    ("DebertaV2ForMaskedLM", "DebertaV2Config",
     SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "tokens"),
    ("MPNetForMaskedLM", "MPNetConfig", SMALL, "tokens"),
    ("XLNetForSequenceClassification", "XLNetConfig",
     {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": 99}, "classes"),
    ("LongformerForMaskedLM", "LongformerConfig", SMALL | {"attention_window": 8}, "tokens"),
    ("FunnelForSequenceClassification", "FunnelConfig",
     {"d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "block_sizes": [1, 1],
      "vocab_size": 99}, "classes"),
    ("ModernBertForMaskedLM", "ModernBertConfig",
     SMALL | {"attn_implementation": "sdpa", "pad_token_id": 0, "reference_compile": False},
     "tokens"),
    ("ConvBertForMaskedLM", "ConvBertConfig", SMALL | {"embedding_size": 32}, "tokens"),
    ("GPT2LMHeadModel", "GPT2Config", GPT, "tokens"),
    ("GPTNeoForCausalLM", "GPTNeoConfig",
     {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 99,
      "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 32}, "tokens"),
    ("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL, "tokens"),
    ("GPTJForCausalLM", "GPTJConfig", GPT | {"rotary_dim": 4}, "tokens"),
    ("OPTForCausalLM", "OPTConfig",
     SMALL | {"ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 32}, "tokens"),
    ("BloomForCausalLM", "BloomConfig",
     {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}, "tokens"),
    ("LlamaForCausalLM", "LlamaConfig", DECODER, "tokens"),
    ("MistralForCausalLM", "MistralConfig", DECODER | {"sliding_window": 8}, "tokens"),
    ("MixtralForCausalLM", "MixtralConfig", DECODER | {"num_local_experts": 4}, "tokens"),
    ("Qwen2ForCausalLM", "Qwen2Config", DECODER, "tokens"),
    ("Qwen3ForCausalLM", "Qwen3Config", DECODER | {"head_dim": 8}, "tokens"),
    ("Gemma2ForCausalLM", "Gemma2Config", DECODER | {"head_dim": 8, "sliding_window": 8}, "tokens"),
    ("PhiForCausalLM", "PhiConfig", SMALL, "tokens"),
    ("FalconForCausalLM", "FalconConfig", SMALL, "tokens"),
    ("MambaForCausalLM", "MambaConfig",
     {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 2, "vocab_size": 99}, "tokens"),
    ("T5ForConditionalGeneration", "T5Config",
     {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99,
      "decoder_start_token_id": 0}, "tokens"),
    ("BartForConditionalGeneration", "BartConfig", SEQ2SEQ, "tokens"),
    ("MBartForConditionalGeneration", "MBartConfig", SEQ2SEQ, "tokens"),
    ("PegasusForConditionalGeneration", "PegasusConfig", SEQ2SEQ, "tokens"),
    ("MarianMTModel", "MarianConfig",
     SEQ2SEQ | {"pad_token_id": 1, "decoder_start_token_id": 1}, "tokens"),
    ("M2M100ForConditionalGeneration", "M2M100Config",
     SEQ2SEQ | {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}, "tokens"),
    ("ViTForImageClassification", "ViTConfig", VISION, "images"),
    ("DeiTForImageClassification", "DeiTConfig", VISION, "images"),
    ("SwinForImageClassification", "SwinConfig",
     {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4],
      "window_size": 4}, "images"),
    ("ConvNextForImageClassification", "ConvNextConfig",
     {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}, "images"),
    ("SegformerForSemanticSegmentation", "SegformerConfig",
     {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "decoder_hidden_size": 16,
      "num_attention_heads": [1, 2, 2, 4]}, "masks"),
    ("CLIPModel", "CLIPConfig",
     {"text_config": SMALL | {"max_position_embeddings": 16}, "vision_config": VISION,
      "projection_dim": 16}, "pairs"),
    ("WhisperForConditionalGeneration", "WhisperConfig",
     SEQ2SEQ | {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32,
                "pad_token_id": 0, "decoder_start_token_id": 1}, "mel"),
    ("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", AUDIO, "sound"),
    ("HubertForSequenceClassification", "HubertConfig", AUDIO, "sound"),
]


def example(what):
    """The keyword arguments of a forward pass, labels included."""
    ids = torch.randint(3, 99, (SAMPLES, 16))
    image = torch.randn(SAMPLES, 3, 32, 32)
    classes = torch.randint(0, 2, (SAMPLES,))
    return {
        "tokens": lambda: {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids},
        "classes": lambda: {"input_ids": ids, "attention_mask": torch.ones_like(ids),
                            "labels": classes},
        "bits": lambda: {"input_ids": ids, "labels": torch.randint(0, 2, (SAMPLES, 16))},
        "images": lambda: {"pixel_values": image, "labels": classes},
        "masks": lambda: {"pixel_values": image, "labels": torch.randint(0, 2, (SAMPLES, 32, 32))},
        "pairs": lambda: {"input_ids": ids, "pixel_values": image},
        "mel": lambda: {"input_features": torch.randn(SAMPLES, 8, 32), "labels": ids},
        "sound": lambda: {"input_values": torch.randn(SAMPLES, 400), "labels": classes},
    }[what]()


class Pairs(nn.Module):
    """Returns the contrastive loss of pairs of texts and images."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, pixel_values):
        return self.model(input_ids=input_ids, pixel_values=pixel_values, return_loss=True)


def without_drop_rates(config):
    """Sets every probability of a dropout in a configuration and in its parts to 0."""
    for name, value in list(vars(config).items()):
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
        elif name.endswith("_config") and hasattr(value, "to_dict"):
            without_drop_rates(value)
    return config


def transformers_case(model, config, options, what):
    import transformers
    transformers.logging.set_verbosity_error()
    settings = without_drop_rates(getattr(transformers, config)(**options))
    made = getattr(transformers, model)(settings)
    allowed = ()
    if model.startswith("Bloom"):
        allowed = (transformers.models.bloom.modeling_bloom.GeLUFunction,)
    made = Pairs(made) if what == "pairs" else made
    return Case(made.train(), None, example(what), allow_functions=allowed)


def transformers_models():
    return [Entry("transformers", row[0], lambda row=row: transformers_case(*row))
            for row in TRANSFORMERS]


# The lists of users' models: zoo_users_FIELD.py.
FIELDS = ("images", "generative", "language", "sequences", "sound", "graphs", "tables", "series",
          "physics", "control", "representations", "options")


def users_models(field):
    """The entries of one field."""
    return importlib.import_module(f"zoo_users_{field}").entries()


def more_models():
    """What was chosen after the capture had been written."""
    import zoo_transformers
    import zoo_vision
    found = [entry for field in FIELDS for entry in users_models(field)]
    found += zoo_transformers.entries() + zoo_vision.entries()
    return [Entry("more", entry.name, entry.make) for entry in found]


LISTS = {"torchvision": torchvision_models, "timm": timm_models,
         "transformers": transformers_models, "users": zoo_users.entries, "more": more_models}
