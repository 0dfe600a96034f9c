#include "engine/inference/merge.hpp"

#include "base/error.hpp"
#include "core/checkpoints/manifest.hpp"
#include "engine/checkpoint/adapter_files.hpp"
#include "engine/checkpoint/model_files.hpp"
#include "engine/plugin_runtime/loader.hpp"

namespace wmtp {

void merge_adapter(const MergeRequest& request) {
  if (std::filesystem::exists(request.base / "manifest.json")) verify_checkpoint(request.base);
  const std::unique_ptr<Adapter> adapter = create_adapter(request.plugin.description, request.plugin.options);
  const ModelConfig config = model_config_of(request.base, ModelConfig{});
  Peers peers{RankEnvironment{}, std::chrono::seconds(1)};
  Channels channels{peers, nullptr, nullptr, std::chrono::seconds(1)};
  ShardedModelRequest wanted;
  wanted.layout.model = &config;
  wanted.layout.heads = Heads::all;
  wanted.layout.adapter = adapter.get();
  wanted.layout.value_heads = value_heads_of(request.base);
  wanted.options.strategy = Strategy::no_shard;
  wanted.positions = 1;  // nothing is computed but the weights
  ShardedModel model(wanted, channels);
  load_model(request.base, model);
  load_adapter(request.adapter, {request.plugin.description.name, "", request.plugin.options}, model);
  save_model(request.target, /*step=*/0, /*config_hash=*/"", model, adapter.get(), tokenizer_of(request.base),
             channels);
}

}  // namespace wmtp
