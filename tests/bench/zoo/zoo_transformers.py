"""Rarer model families of transformers, with tiny configurations, for scripts/zoo."""
import torch
import zoo_models
from zoo_case import SAMPLES, Case, Entry
from zoo_models import AUDIO, DECODER, GPT, SEQ2SEQ, SMALL, VISION

ENCODER_DECODER = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
                   "vocab_size": 99, "decoder_start_token_id": 0}
PYRAMID = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
SERIES = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2],
          "num_time_features": 1, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
          "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
LLM = DECODER | {"head_dim": 8, "pad_token_id": 0, "max_position_embeddings": 64}
# (class, class of the configuration, its options, fields of the example).
MORE = [
    ("CamembertForMaskedLM", "CamembertConfig", SMALL | {"max_position_embeddings": 40}, "tokens"),
    ("XLMRobertaForSequenceClassification", "XLMRobertaConfig", SMALL | {"max_position_embeddings":
     40}, "classes"),
    ("FlaubertForSequenceClassification", "FlaubertConfig", {"emb_dim": 32, "n_layers": 2,
     "n_heads": 4, "vocab_size": 99, "n_langs": 1}, "classes"),
    ("XLMWithLMHeadModel", "XLMConfig", {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "vocab_size":
     99, "n_langs": 1, "max_position_embeddings": 32}, "tokens"),
    ("DebertaForMaskedLM", "DebertaConfig", SMALL | {"relative_attention": True, "pos_att_type":
     ["p2c", "c2p"]}, "tokens"),
    ("BigBirdForMaskedLM", "BigBirdConfig", SMALL | {"attention_type": "original_full"}, "tokens"),
    ("ReformerForMaskedLM", "ReformerConfig", {"attention_head_size": 8, "attn_layers": ["local",
     "local"], "hidden_size": 32, "num_attention_heads": 4, "feed_forward_size": 64, "vocab_size":
     99, "is_decoder": False, "local_attn_chunk_length": 4, "axial_pos_shape": (4, 4),
     "axial_pos_embds_dim": (16, 16)}, "tokens"),
    ("FNetForMaskedLM", "FNetConfig", SMALL, "unmasked"),
    ("SqueezeBertForMaskedLM", "SqueezeBertConfig", SMALL | {"embedding_size": 32}, "tokens"),
    ("MobileBertForMaskedLM", "MobileBertConfig", SMALL | {"embedding_size": 16,
     "intra_bottleneck_size": 16, "num_feedforward_networks": 2}, "tokens"),
    ("NystromformerForMaskedLM", "NystromformerConfig", SMALL | {"segment_means_seq_len": 16,
     "num_landmarks": 4}, "tokens"),
    ("YosoForMaskedLM", "YosoConfig", SMALL | {"use_expectation": True}, "tokens"),
    ("RoFormerForMaskedLM", "RoFormerConfig", SMALL | {"embedding_size": 32, "rotary_value": False,
     "max_position_embeddings": 32}, "tokens"),
    ("LayoutLMForMaskedLM", "LayoutLMConfig", SMALL, "tokens"),
    ("MegatronBertForMaskedLM", "MegatronBertConfig", SMALL, "tokens"),
    ("ErnieForMaskedLM", "ErnieConfig", SMALL, "tokens"),
    ("IBertForMaskedLM", "IBertConfig", SMALL | {"max_position_embeddings": 40}, "tokens"),
    ("LukeForMaskedLM", "LukeConfig", SMALL | {"entity_vocab_size": 9, "entity_emb_size": 8,
     "max_position_embeddings": 40}, "tokens"),
    ("CanineForSequenceClassification", "CanineConfig", SMALL | {"downsampling_rate": 4,
     "upsampling_kernel_size": 4, "num_hash_buckets": 40, "local_transformer_stride": 8},
     "classes"),
    ("EsmForMaskedLM", "EsmConfig", SMALL | {"max_position_embeddings": 40, "pad_token_id": 1,
     "mask_token_id": 2}, "tokens"),
    ("RemBertForMaskedLM", "RemBertConfig", SMALL | {"input_embedding_size": 16,
     "output_embedding_size": 32}, "tokens"),
    ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", GPT, "tokens"),
    ("CodeGenForCausalLM", "CodeGenConfig", GPT | {"rotary_dim": 4}, "tokens"),
    ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", GPT, "tokens"),
    ("CTRLLMHeadModel", "CTRLConfig", {"n_embd": 32, "dff": 64, "n_layer": 2, "n_head": 4,
     "n_positions": 32, "vocab_size": 99}, "tokens"),
    ("BioGptForCausalLM", "BioGptConfig", SMALL | {"max_position_embeddings": 32}, "tokens"),
    ("XGLMForCausalLM", "XGLMConfig", {"d_model": 32, "num_layers": 2, "attention_heads": 4,
     "ffn_dim": 64, "vocab_size": 99, "max_position_embeddings": 32}, "tokens"),
    ("GemmaForCausalLM", "GemmaConfig", DECODER | {"head_dim": 8}, "tokens"),
    ("Gemma3ForCausalLM", "Gemma3TextConfig", DECODER | {"head_dim": 8, "sliding_window": 8},
     "tokens"),
    ("Phi3ForCausalLM", "Phi3Config", DECODER | {"pad_token_id": 0}, "tokens"),
    ("StableLmForCausalLM", "StableLmConfig", DECODER, "tokens"),
    ("Starcoder2ForCausalLM", "Starcoder2Config", DECODER, "tokens"),
    ("OlmoForCausalLM", "OlmoConfig", DECODER, "tokens"),
    ("Olmo2ForCausalLM", "Olmo2Config", DECODER, "tokens"),
    ("OlmoeForCausalLM", "OlmoeConfig", DECODER | {"num_experts": 4, "num_experts_per_tok": 2},
     "tokens"),
    ("MptForCausalLM", "MptConfig", {"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 99,
     "max_seq_len": 32}, "tokens"),
    ("CohereForCausalLM", "CohereConfig", DECODER, "tokens"),
    ("GraniteForCausalLM", "GraniteConfig", DECODER, "tokens"),
    ("GlmForCausalLM", "GlmConfig", DECODER | {"head_dim": 8, "pad_token_id": 0}, "tokens"),
    ("NemotronForCausalLM", "NemotronConfig", DECODER, "tokens"),
    ("HeliumForCausalLM", "HeliumConfig", DECODER | {"head_dim": 8}, "tokens"),
    ("SmolLM3ForCausalLM", "SmolLM3Config", DECODER | {"pad_token_id": 0}, "tokens"),
    ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", DECODER | {"num_experts": 4, "num_experts_per_tok": 2,
     "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}, "tokens"),
    ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", DECODER | {"num_experts": 4, "num_experts_per_tok": 2,
     "moe_intermediate_size": 16, "head_dim": 8}, "tokens"),
    ("DeepseekV3ForCausalLM", "DeepseekV3Config", DECODER | {"num_key_value_heads": 4,
     "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
     "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group":
     1, "moe_intermediate_size": 16, "first_k_dense_replace": 1}, "tokens"),
    ("GptOssForCausalLM", "GptOssConfig", DECODER | {"num_local_experts": 4, "num_experts_per_tok":
     2, "head_dim": 8, "sliding_window": 8}, "tokens"),
    ("JambaForCausalLM", "JambaConfig", DECODER | {"use_mamba_kernels": False, "num_experts": 1,
     "mamba_d_state": 4, "mamba_dt_rank": 4}, "tokens"),
    ("Mamba2ForCausalLM", "Mamba2Config", {"hidden_size": 32, "state_size": 8, "num_heads": 8,
     "head_dim": 8, "num_hidden_layers": 2, "vocab_size": 99, "n_groups": 1, "chunk_size": 8},
     "tokens"),
    ("RwkvForCausalLM", "RwkvConfig", {"hidden_size": 32, "attention_hidden_size": 32,
     "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 99}, "unmasked"),
    ("RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", {"hidden_size": 32, "num_hidden_layers":
     3, "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 96, "lru_width":
     32, "vocab_size": 99, "attention_window_size": 8}, "tokens"),
    ("BlenderbotForConditionalGeneration", "BlenderbotConfig", SEQ2SEQ, "tokens"),
    ("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallConfig", SEQ2SEQ, "tokens"),
    ("LEDForConditionalGeneration", "LEDConfig", SEQ2SEQ | {"attention_window": 8,
     "max_encoder_position_embeddings": 32, "max_decoder_position_embeddings": 32}, "tokens"),
    ("PLBartForConditionalGeneration", "PLBartConfig", SEQ2SEQ, "tokens"),
    ("MT5ForConditionalGeneration", "MT5Config", ENCODER_DECODER, "tokens"),
    ("UMT5ForConditionalGeneration", "UMT5Config", ENCODER_DECODER, "tokens"),
    ("LongT5ForConditionalGeneration", "LongT5Config", ENCODER_DECODER | {"local_radius": 3},
     "tokens"),
    ("SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig", ENCODER_DECODER |
     {"num_experts": 4}, "tokens"),
    ("ProphetNetForConditionalGeneration", "ProphetNetConfig", {"hidden_size": 32,
     "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4,
     "num_decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size":
     99, "max_position_embeddings": 32, "ngram": 2}, "tokens"),
    ("Speech2TextForConditionalGeneration", "Speech2TextConfig", SEQ2SEQ |
     {"input_feat_per_channel": 8, "conv_channels": 16, "conv_kernel_sizes": [3, 3],
     "max_source_positions": 64, "max_target_positions": 32, "pad_token_id": 0,
     "decoder_start_token_id": 1}, "mel_last"),
    ("BeitForImageClassification", "BeitConfig", VISION, "images"),
    ("Data2VecVisionForImageClassification", "Data2VecVisionConfig", VISION, "images"),
    ("Data2VecTextForMaskedLM", "Data2VecTextConfig", SMALL | {"max_position_embeddings": 40},
     "tokens"),
    ("Data2VecAudioForSequenceClassification", "Data2VecAudioConfig", AUDIO |
     {"num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 5}, "sound"),
    ("WavLMForSequenceClassification", "WavLMConfig", AUDIO, "sound"),
    ("UniSpeechForSequenceClassification", "UniSpeechConfig", AUDIO, "sound"),
    ("UniSpeechSatForSequenceClassification", "UniSpeechSatConfig", AUDIO, "sound"),
    ("Wav2Vec2ConformerForSequenceClassification", "Wav2Vec2ConformerConfig", AUDIO |
     {"conv_depthwise_kernel_size": 3}, "sound"),
    ("SEWForSequenceClassification", "SEWConfig", AUDIO | {"squeeze_factor": 2}, "sound"),
    ("SEWDForSequenceClassification", "SEWDConfig", AUDIO | {"squeeze_factor": 2, "pos_att_type":
     ("p2c", "c2p"), "relative_attention": True}, "sound"),
    ("Wav2Vec2ForCTC", "Wav2Vec2Config", AUDIO, "ctc"),
    ("ASTForAudioClassification", "ASTConfig", {"hidden_size": 32, "num_hidden_layers": 2,
     "num_attention_heads": 4, "intermediate_size": 64, "patch_size": 4, "frequency_stride": 4,
     "time_stride": 4, "num_mel_bins": 8, "max_length": 16}, "ast"),
    ("Swinv2ForImageClassification", "Swinv2Config", {"image_size": 32, "patch_size": 2,
     "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4}, "images"),
    ("ConvNextV2ForImageClassification", "ConvNextV2Config", {"hidden_sizes": [8, 16, 24, 32],
     "depths": [1, 1, 2, 1]}, "images"),
    ("LevitForImageClassification", "LevitConfig", {"image_size": 32, "hidden_sizes": [16, 24, 32],
     "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1], "key_dim": [4, 4, 4]}, "images"),
    ("MobileViTForImageClassification", "MobileViTConfig", {"image_size": 64, "hidden_sizes": [16,
     24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32], "num_attention_heads": 2},
     "images64"),
    ("MobileViTV2ForImageClassification", "MobileViTV2Config", {"image_size": 64,
     "width_multiplier": 0.5}, "images64"),
    ("MobileNetV1ForImageClassification", "MobileNetV1Config", {"depth_multiplier": 0.25,
     "image_size": 32}, "images"),
    ("MobileNetV2ForImageClassification", "MobileNetV2Config", {"depth_multiplier": 0.25,
     "image_size": 32}, "images"),
    ("ResNetForImageClassification", "ResNetConfig", {"embedding_size": 8, "hidden_sizes": [8, 16,
     24, 32], "depths": [1, 1, 1, 1]}, "images"),
    ("RegNetForImageClassification", "RegNetConfig", {"embedding_size": 8, "hidden_sizes": [8, 16,
     24, 32], "depths": [1, 1, 1, 1], "groups_width": 8}, "images"),
    ("BitForImageClassification", "BitConfig", {"embedding_size": 8, "hidden_sizes": [32, 32, 32,
     32], "depths": [1, 1, 1, 1], "num_groups": 4}, "images"),
    ("PoolFormerForImageClassification", "PoolFormerConfig", PYRAMID, "images"),
    ("PvtForImageClassification", "PvtConfig", {"image_size": 32, "hidden_sizes": [8, 16, 24, 32],
     "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]}, "images"),
    ("PvtV2ForImageClassification", "PvtV2Config", {"image_size": 32, "hidden_sizes": [8, 16, 24,
     32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]}, "images"),
    ("FocalNetForImageClassification", "FocalNetConfig", {"image_size": 32, "embed_dim": 8,
     "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 32, 64]}, "images"),
    ("Dinov2ForImageClassification", "Dinov2Config", VISION, "images"),
    ("ViTMSNForImageClassification", "ViTMSNConfig", VISION, "images"),
    ("ViTMAEForPreTraining", "ViTMAEConfig", VISION | {"decoder_hidden_size": 16,
     "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2, "decoder_intermediate_size":
     32}, "mae"),
    ("VivitForVideoClassification", "VivitConfig", {"hidden_size": 32, "num_hidden_layers": 2,
     "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32, "num_frames": 4,
     "tubelet_size": [2, 8, 8]}, "clip"),
    ("TimesformerForVideoClassification", "TimesformerConfig", VISION | {"num_frames": 4}, "clip"),
    ("VideoMAEForVideoClassification", "VideoMAEConfig", VISION | {"num_frames": 4}, "clip"),
    ("HieraForImageClassification", "HieraConfig", {"image_size": [32, 32], "embed_dim": 8,
     "depths": [1, 1], "num_heads": [1, 2], "patch_size": [3, 3], "patch_stride": [2, 2],
     "patch_padding": [1, 1], "query_stride": [2, 2], "masked_unit_size": [4, 4], "num_query_pool":
     1}, "images"),
    ("UperNetForSemanticSegmentation", "UperNetConfig", {"hidden_size": 16, "auxiliary_in_channels":
     24, "pool_scales": [1, 2]}, "upernet"),
    ("GLPNForDepthEstimation", "GLPNConfig", PYRAMID | {"decoder_hidden_size": 16,
     "num_attention_heads": [1, 2, 2, 4]}, "depth"),
    ("DetrModel", "DetrConfig", {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
     "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
     "decoder_ffn_dim": 64, "num_queries": 5, "use_pretrained_backbone": False, "backbone":
     "resnet18"}, "hidden64"),
    ("YolosModel", "YolosConfig", VISION | {"image_size": [32, 32], "num_detection_tokens": 4},
     "hidden"),
    ("SiglipModel", "SiglipConfig", {"text_config": SMALL | {"max_position_embeddings": 16},
     "vision_config": VISION}, "pairs"),
    ("ChineseCLIPModel", "ChineseCLIPConfig", {"text_config": SMALL | {"max_position_embeddings":
     32}, "vision_config": VISION, "projection_dim": 16}, "pairs"),
    ("GroupViTModel", "GroupViTConfig", {"text_config": SMALL | {"max_position_embeddings": 16},
     "vision_config": {"hidden_size": 32, "depths": [1, 1], "num_group_tokens": [8, 4],
     "num_output_groups": [8, 4], "num_attention_heads": 4, "intermediate_size": 64, "image_size":
     32, "patch_size": 8}, "projection_dim": 16, "projection_intermediate_dim": 32}, "pairs"),
    ("FlavaTextModel", "FlavaTextConfig", SMALL, "hidden_tokens"),
    ("BlipTextModel", "BlipTextConfig", SMALL, "hidden_tokens"),
    ("PerceiverForSequenceClassification", "PerceiverConfig", {"d_model": 16, "d_latents": 16,
     "num_latents": 4, "num_blocks": 1, "num_self_attends_per_block": 1, "num_self_attention_heads":
     2, "num_cross_attention_heads": 2, "vocab_size": 99, "max_position_embeddings": 32},
     "perceiver"),
    ("DecisionTransformerModel", "DecisionTransformerConfig", {"state_dim": 4, "act_dim": 2,
     "hidden_size": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 1}, "decision"),
    ("TimeSeriesTransformerForPrediction", "TimeSeriesTransformerConfig", SERIES, "series"),
    ("InformerForPrediction", "InformerConfig", SERIES, "series"),
    ("AutoformerForPrediction", "AutoformerConfig", SERIES | {"label_length": 4}, "series"),
    ("PatchTSTForPrediction", "PatchTSTConfig", {"num_input_channels": 2, "context_length": 16,
     "prediction_length": 4, "patch_length": 4, "patch_stride": 4, "d_model": 16,
     "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 32, "random_mask_ratio": 0.0},
     "patches"),
    ("PatchTSMixerForPrediction", "PatchTSMixerConfig", {"num_input_channels": 2, "context_length":
     16, "prediction_length": 4, "patch_length": 4, "patch_stride": 4, "d_model": 8, "num_layers":
     1}, "patches"),
    ("VisionEncoderDecoderModel", "VisionEncoderDecoderConfig", {}, "caption"),
    ("SplinterForQuestionAnswering", "SplinterConfig", SMALL, "span"),
    ("BertForQuestionAnswering", "BertConfig", SMALL, "span"),
    ("BertForPreTraining", "BertConfig", SMALL, "pretraining"),
    ("BertForMultipleChoice", "BertConfig", SMALL, "choice"),
    # A third list, chosen after the others had been captured.
    ("ArceeForCausalLM", "ArceeConfig", LLM, "tokens"),
    ("BitNetForCausalLM", "BitNetConfig", LLM, "tokens"),
    ("Cohere2ForCausalLM", "Cohere2Config", LLM | {"sliding_window": 8}, "tokens"),
    ("DiffLlamaForCausalLM", "DiffLlamaConfig", LLM | {"num_key_value_heads": 2}, "tokens"),
    ("Ernie4_5ForCausalLM", "Ernie4_5Config", LLM, "tokens"),
    ("Exaone4ForCausalLM", "Exaone4Config", LLM | {"sliding_window": 8,
     "sliding_window_pattern": 2}, "tokens"),
    ("Glm4ForCausalLM", "Glm4Config", LLM, "tokens"),
    ("HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Config", LLM, "tokens"),
    ("Lfm2ForCausalLM", "Lfm2Config", LLM | {"layer_types": ["conv", "full_attention"],
     "block_auto_adjust_ff_dim": False}, "tokens"),
    ("MinistralForCausalLM", "MinistralConfig", LLM | {"sliding_window": 8}, "tokens"),
    ("ModernBertDecoderForCausalLM", "ModernBertDecoderConfig", SMALL | {"pad_token_id": 0,
     "attn_implementation": "sdpa"}, "tokens"),
    ("Olmo3ForCausalLM", "Olmo3Config", LLM | {"sliding_window": 8}, "tokens"),
    ("PersimmonForCausalLM", "PersimmonConfig", SMALL, "tokens"),
    ("SeedOssForCausalLM", "SeedOssConfig", LLM, "tokens"),
    ("VaultGemmaForCausalLM", "VaultGemmaConfig", LLM | {"sliding_window": 8}, "tokens"),
    ("FalconMambaForCausalLM", "FalconMambaConfig", {"hidden_size": 32, "state_size": 4,
     "num_hidden_layers": 2, "vocab_size": 99}, "tokens"),
    ("GPTNeoXJapaneseForCausalLM", "GPTNeoXJapaneseConfig", SMALL, "tokens"),
    ("GraniteMoeForCausalLM", "GraniteMoeConfig", DECODER | {"num_local_experts": 4},
     "tokens"),
    ("DeepseekV2ForCausalLM", "DeepseekV2Config", SMALL | {"n_routed_experts": 4,
     "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
     "v_head_dim": 8, "first_k_dense_replace": 1, "moe_intermediate_size": 16,
     "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "num_key_value_heads": 4},
     "tokens"),
    ("MvpForConditionalGeneration", "MvpConfig", SEQ2SEQ, "tokens"),
    ("RobertaPreLayerNormForMaskedLM", "RobertaPreLayerNormConfig", SMALL |
     {"max_position_embeddings": 40}, "tokens"),
    ("RoCBertForMaskedLM", "RoCBertConfig", SMALL | {"pronunciation_vocab_size": 99,
     "shape_vocab_size": 99, "pronunciation_embed_dim": 8, "shape_embed_dim": 8}, "tokens"),
    ("MraForMaskedLM", "MraConfig", SMALL | {"max_position_embeddings": 40}, "tokens"),
    ("XLMRobertaXLForMaskedLM", "XLMRobertaXLConfig", SMALL | {"max_position_embeddings": 40},
     "tokens"),
    ("MarkupLMForSequenceClassification", "MarkupLMConfig", SMALL |
     {"max_position_embeddings": 40}, "classes"),
    ("Dinov2WithRegistersForImageClassification", "Dinov2WithRegistersConfig", VISION |
     {"num_register_tokens": 2}, "images"),
    ("IJepaForImageClassification", "IJepaConfig", VISION, "images"),
    ("HGNetV2ForImageClassification", "HGNetV2Config", {"depths": [1, 1, 1, 1],
     "hidden_sizes": [8, 16, 16, 16], "stem_channels": [3, 8, 8], "stage_in_channels": [8, 8,
     16, 16], "stage_mid_channels": [4, 4, 4, 4], "stage_out_channels": [8, 16, 16, 16],
     "stage_num_blocks": [1, 1, 1, 1], "stage_numb_of_layers": [1, 1, 1, 1],
     "stage_light_block": [False, False, False, False]}, "images"),
    ("TextNetForImageClassification", "TextNetConfig", {"image_size": [32, 32]}, "images"),
    ("TrOCRForCausalLM", "TrOCRConfig", {"d_model": 32, "decoder_layers": 2,
     "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "vocab_size": 99,
     "max_position_embeddings": 32}, "tokens"),
    ("BertGenerationDecoder", "BertGenerationConfig", SMALL | {"is_decoder": True}, "tokens"),
    ("MegatronBertForSequenceClassification", "MegatronBertConfig", SMALL, "classes"),
    ("GPT2ForSequenceClassification", "GPT2Config", GPT | {"pad_token_id": 0}, "classes"),
    ("LlamaForSequenceClassification", "LlamaConfig", DECODER | {"pad_token_id": 0},
     "classes"),
    ("XLNetLMHeadModel", "XLNetConfig", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner":
     64, "vocab_size": 99}, "tokens"),
    ("FunnelForMaskedLM", "FunnelConfig", {"d_model": 32, "n_head": 4, "d_head": 8, "d_inner":
     64, "block_sizes": [1, 1], "vocab_size": 99}, "tokens"),
    ("ElectraForMaskedLM", "ElectraConfig", SMALL | {"embedding_size": 16}, "tokens"),
    ("AlbertForMaskedLM", "AlbertConfig", SMALL | {"embedding_size": 16}, "tokens"),
]


def fields(what):
    """The keyword arguments of a forward pass, labels included, that zoo_models.example lacks."""
    ids, image = torch.randint(3, 99, (SAMPLES, 16)), torch.randn(SAMPLES, 3, 32, 32)
    two = torch.randint(0, 2, (SAMPLES,))
    places = [torch.randint(0, 16, (SAMPLES,)) for _ in range(2)]
    made = {
        "unmasked": lambda: {"input_ids": ids, "labels": ids},
        "mel_last": lambda: {"input_features": torch.randn(SAMPLES, 32, 8), "labels": ids},
        "ctc": lambda: {"input_values": torch.randn(SAMPLES, 400),
                        "labels": torch.randint(1, 32, (SAMPLES, 5))},
        "ast": lambda: {"input_values": torch.randn(SAMPLES, 16, 8), "labels": two},
        "images64": lambda: {"pixel_values": torch.randn(SAMPLES, 3, 64, 64), "labels": two},
        "mae": lambda: {"pixel_values": image},
        "clip": lambda: {"pixel_values": torch.randn(SAMPLES, 4, 3, 32, 32), "labels": two},
        "upernet": lambda: {"pixel_values": torch.randn(SAMPLES, 3, 64, 64),
                            "labels": torch.randint(0, 2, (SAMPLES, 64, 64))},
        "depth": lambda: {"pixel_values": torch.randn(SAMPLES, 3, 64, 64),
                          "labels": torch.rand(SAMPLES, 64, 64)},
        "perceiver": lambda: {"inputs": ids, "attention_mask": torch.ones_like(ids), "labels": two},
        "series": lambda: {"past_values": torch.rand(SAMPLES, 10) + 1,
                           "past_time_features": torch.randn(SAMPLES, 10, 1),
                           "past_observed_mask": torch.ones(SAMPLES, 10),
                           "future_values": torch.rand(SAMPLES, 4) + 1,
                           "future_time_features": torch.randn(SAMPLES, 4, 1)},
        "patches": lambda: {"past_values": torch.randn(SAMPLES, 16, 2),
                            "future_values": torch.randn(SAMPLES, 4, 2)},
        "caption": lambda: {"pixel_values": image, "labels": ids},
        "span": lambda: {"input_ids": ids, "start_positions": places[0],
                         "end_positions": places[1]},
        "pretraining": lambda: {"input_ids": ids, "labels": ids, "next_sentence_label": two},
        "choice": lambda: {"input_ids": torch.randint(3, 99, (SAMPLES, 3, 16)),
                           "labels": torch.randint(0, 3, (SAMPLES,))}}
    return made[what]() if what in made else None


def square_of(name, feature=None):
    """A loss of models that have none: the squares of an output, or of the mean of a feature over
    the tokens. The mean over the features of a layer norm would be 0 whatever the parameters are."""
    def loss(outputs, target):
        x = outputs[name] if feature is None else outputs[name][..., feature].mean(1)
        return (x - target).square().mean()
    return loss


def without_loss(model, what):
    """The case of a model without a loss, or None."""
    ids = torch.randint(3, 99, (SAMPLES, 16))
    if what in ("hidden", "hidden64"):
        size = 64 if what == "hidden64" else 32
        inputs = {"pixel_values": torch.randn(SAMPLES, 3, size, size)}
    elif what == "hidden_tokens":
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    elif what == "decision":
        inputs = {"states": torch.randn(SAMPLES, 6, 4), "actions": torch.randn(SAMPLES, 6, 2),
                  "rewards": torch.randn(SAMPLES, 6, 1), "returns_to_go": torch.randn(SAMPLES, 6, 1),
                  "timesteps": torch.arange(6).repeat(SAMPLES, 1),
                  "attention_mask": torch.ones(SAMPLES, 6)}
        return Case(model, square_of("action_preds"), inputs, torch.randn(SAMPLES, 6, 2))
    else:
        return None
    return Case(model, square_of("last_hidden_state", 0), inputs, torch.randn(SAMPLES))


def configuration(config, options, what):
    import transformers
    if what == "caption":
        decoder = SMALL | {"is_decoder": True, "add_cross_attention": True}
        made = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
            *map(zoo_models.without_drop_rates, (transformers.ViTConfig(**VISION),
                                                 transformers.BertConfig(**decoder))))
        made.decoder_start_token_id, made.pad_token_id = 1, 0
        return made
    if what == "upernet":
        options = options | {"num_labels": 2, "backbone_config": transformers.ConvNextConfig(
            **PYRAMID, out_features=["stage1", "stage2", "stage3", "stage4"])}
    return zoo_models.without_drop_rates(getattr(transformers, config)(**options))


def case(model, config, options, what):
    import transformers
    transformers.logging.set_verbosity_error()
    if what in ("tokens", "classes", "images", "masks", "pairs", "sound"):
        return zoo_models.transformers_case(model, config, options, what)
    made = getattr(transformers, model)(config=configuration(config, options, what)).train()
    return without_loss(made, what) or Case(made, None, fields(what))


def entries():
    """The entries of all models."""
    return [Entry("transformers", row[0], lambda row=row: case(*row)) for row in MORE]
