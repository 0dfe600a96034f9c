// Assembly: everything that training needs, built from the experiment and agreed between the ranks. After this no rank
// may change the plugins, the data or the shape of the model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/model_files.hpp"
#include "engine/prepare/prepare.hpp"
#include "engine/run/session.hpp"
#include "engine/train/trainer.hpp"

namespace wmtp {

/// Who a run is: compared between ranks before anything else.
struct Identity {
  std::string config_hash;
  PluginDescription pipeline, adapter;
  std::optional<PluginDescription> inner;  ///< that of [pipeline.inner]

  /// All of them, each with what it is in the experiment: "pipeline", "inner", "adapter".
  std::vector<std::pair<std::string, const PluginDescription*>> plugins() const;
};
/// [all ranks, collective] Error(usage) or Error(plugin) with both values where ranks differ.
Identity agree_on_identity(Session& session, const Experiment& experiment, const Stages& stages);

/// The parts keep references to one another: built once, never moved.
class Assembly {
 public:
  /// [all ranks, collective] `stages` has the finished model of each stage that the experiment names. `say` gets a line
  /// for each long part, on rank 0.
  Assembly(Session& session, const Experiment& experiment, const Identity& identity, const Stages& stages,
           const std::function<void(const std::string&)>& say);
  Assembly(const Assembly&) = delete;

  /// After the trainer's state was loaded from a checkpoint of `saved_by` ranks: what is left to draw is drawn by the
  /// ranks that there are now. Error(data) where the order of the data depends on how many there are.
  void go_on_with_other_ranks(int64_t saved_by);

  Trainer& trainer() { return *trainer_; }
  ShardedModel& model() { return *model_; }
  const Adapter& adapter() const { return *adapter_; }
  ModelTokenizer tokenizer() const;  ///< of the run's data
  /// The same, to read with; null where there is none.
  const Tokenizer* opened_tokenizer() const { return data_.tokenizer.get(); }
  /// What the policy started from; empty where it was drawn from the seed.
  const std::filesystem::path& started_from() const { return started_from_; }
  bool has_validation() const { return validation_source_ != nullptr; }

 private:
  const Session& session_;
  const Experiment& experiment_;
  std::filesystem::path started_from_;
  std::unique_ptr<ShardedModel> build_policy(Session& session, const Experiment& experiment, const Stages& stages);

  ActivePipeline pipeline_;
  std::unique_ptr<Adapter> adapter_;
  Prepared data_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<BatchSource> training_source_, validation_source_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace wmtp
