#include "base/error.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/torch/adapter_files.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "checkpoint/verify.hpp"
#include "comm/torch/single_rank.hpp"
#include "huggingface/params_file.hpp"
#include "inference/model_requests.hpp"
#include "memory/caught_error.hpp"
#include "plugins/torch/loader.hpp"

namespace wmtp {

void merge_adapter(const MergeRequest& request) try {
  if (std::filesystem::exists(request.base / manifest_file_name)) verify_checkpoint(request.base);
  const std::unique_ptr<Adapter> adapter = create_adapter(request.plugin.description, request.plugin.options);
  const ModelConfig config = read_model_config(request.base, ModelConfig{});
  SingleRank rank;
  ShardedModelRequest wanted;
  wanted.spec.model = &config;
  wanted.spec.heads = Heads::all;
  wanted.spec.adapter = adapter.get();
  wanted.spec.trained_parts.names = trained_parameters_in(request.adapter, config);
  wanted.spec.value_heads = read_saved_value_heads(request.base);
  wanted.options.strategy = Strategy::no_shard;
  wanted.sequence_length = 1;  // only the weights are used
  ShardedModel model(wanted, rank.channels);
  load_model(request.base, model);
  load_adapter(request.adapter, {request.plugin.description.name, "", request.plugin.options}, model);
  ModelTokenizer tokenizer = read_model_tokenizer(request.base);
  tokenizer.eos_token_id = token_ids_json(end_tokens(request.base));
  tokenizer.generation_config_from = request.base;
  save_model(request.target, /*step=*/0, /*config_hash=*/"", model, adapter.get(), tokenizer);
} catch (...) {
  rethrow_from("while the adapter was merged",
               "it takes the whole model in fp32: close other programs that use memory");
}

}  // namespace wmtp
