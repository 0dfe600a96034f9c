// Assembly: everything that training needs, built from the experiment and equal on all ranks. Afterwards plugins, data
// and the model's shape must not change.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/base_model.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "data/torch/prepare.hpp"
#include "job/identity.hpp"
#include "shard/parameter_group.hpp"
#include "train/run_identity.hpp"
#include "train/session.hpp"
#include "train/trainer.hpp"

namespace wmtp {

/// Neither copyable nor movable: its parts refer to each other.
class Assembly {
 public:
  /// [all ranks, collective] `stages`: the finished model of every stage of the experiment. `log` receives a line for
  /// each long-running part, on rank 0.
  Assembly(Session& session, const Experiment& experiment, const RunIdentity& identity, const Stages& stages,
           const std::function<void(const std::string&)>& log);
  Assembly(const Assembly&) = delete;

  /// Updates the number of steps after the trainer's state was loaded from a checkpoint of `saved_world_size` ranks:
  /// the current ranks draw the remaining data. Error(data) if the order of the data depends on the number of ranks.
  void resume_with_world_size(int64_t saved_world_size);

  /// Sequences of one pass over the training data.
  int64_t sequences_per_epoch() const { return training_source_->count(); }

  Trainer& trainer() { return *trainer_; }
  ShardedModel& model() { return *model_; }
  const Adapter& adapter() const { return *adapter_; }
  ModelTokenizer tokenizer() const;  ///< of the run's data
  /// The same tokenizer, opened; null if the data have none.
  const Tokenizer* opened_tokenizer() const { return data_.tokenizer.get(); }
  /// The policy's initial weights; empty if it was initialized from the seed.
  const std::filesystem::path& started_from() const { return started_from_; }
  /// How to make what the run does not train; nullopt if it trains everything.
  std::optional<BaseModel> base_model() const;
  /// Passes over the training data until now; nullopt if the data are unlimited.
  std::optional<double> epoch() const;

 private:
  std::unique_ptr<ShardedModel> build_policy() const;
  void warn_of_unread_validation(int64_t sequences) const;
  void fill_policy(const Stages& stages);

  Session& session_;
  const Experiment& experiment_;
  std::filesystem::path started_from_;
  std::vector<int64_t> ends_;  ///< ids that end a text of the initial weights, if they have the data's tokenizer
  ActivePipeline pipeline_;
  std::unique_ptr<Adapter> adapter_;
  Prepared data_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<BatchSource> training_source_, validation_source_;
  std::unique_ptr<Trainer> trainer_;
};

/// The part of the model that these ranks have.
Section section_of(const Channels& channels);
GroupOptions group_options(const ParallelConfig& parallel, at::Device device);
/// The policy and its batches as the experiment states them, for training on `device`. `adapter` outlives the result.
ShardedModelRequest policy_request(const Experiment& experiment, const ActivePipeline& pipeline, const Adapter& adapter,
                                   const at::Device& device);
/// The first `token_heads` and the value heads of a frozen model.
struct FrozenHeads {
  int64_t token_heads = 1;
  std::vector<ValueHead> value_heads = {};
};
/// A frozen model of this shape with the settings of its table. `shape` outlives the result.
ShardedModelRequest frozen_request(const Experiment& experiment, const FrozenConfig& table, const ModelConfig& shape,
                                   const FrozenHeads& heads, const at::Device& device);
BatchRequest batch_request(const Experiment& experiment, const ActivePipeline& pipeline, const at::Device& device);
/// The same, with what the pipeline's signals need of the data.
BatchRequest batch_request(const Experiment& experiment, const ActivePipeline& pipeline, const Prepared& data,
                           const at::Device& device);

/// The model of the table's stage, or else its `weights` resolved to a folder or file; empty if neither. Error(data).
std::filesystem::path initial_weights(const Session& session, const Experiment& experiment, const Stages& stages,
                                      const std::string& table, const std::string& weights);

/// Error(data) if the pipeline reads values and a record has several answers: returns and advantages run over the one
/// answer of a sequence, from its reward at its end.
void refuse_several_answers(const Experiment& experiment, const ActivePipeline& pipeline, const Prepared& data);

}  // namespace wmtp
