// StateSaver: writes checkpoints for resuming beside the training, which stands still for none of the writing.
//
// A step-NNNNNN/ folder: every rank writes its shards (rank-RRRR.safetensors: slices of logical tensors, "param/NAME",
// "exp_avg/NAME", "exp_avg_sq/NAME"), rank 0 the manifest. A save, on every rank:
// 1. begin() takes note of what is to be saved, and copies what is small
// 2. a thread copies shards and moments into memory of its own, kept from save to save. The training goes on, but waits
//    for the end of this copy in settle() before it changes any of them: a forward and a backward pass later
// 3. rank 0 makes a draft of the folder; every rank writes its file there and fsyncs it
// 4. when rank 0 knows of every file it writes the manifest and publishes the folder (durable_file.hpp), then deletes
//    those beyond `keep` (retention.hpp), and tells the others
// Whatever fails is the outcome on every rank; the draft is then removed. The ranks speak through BackgroundStore: with no
// connection of the training's, and never for longer than the others live. What a crash leaves: save_points.hpp.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoints/manifest.hpp"
#include "engine/checkpoint/state_pieces.hpp"
#include "engine/comm/peers.hpp"

namespace wmtp {

class FolderDraft;

struct SaveRequest {
  int64_t step = 0;
  std::string config_hash;
  std::map<std::string, std::string> plugins;
  nlohmann::json state;                              ///< small values; equal on all ranks
  const std::map<std::string, at::Tensor>* tensors;  ///< the pipeline's named state; equal on all ranks
};

struct SaveOutcome {
  int64_t step = 0;
  std::filesystem::path folder;
  std::string failure;     ///< why there is no such folder, the same on every rank; empty when it is there
  bool rank_lost = false;  ///< ... it is that a rank is lost
  std::vector<std::filesystem::path> deleted;                 ///< [rank 0] older ones
  std::vector<std::pair<std::string, std::string>> warnings;  ///< [rank 0] kind of event, and message
  double seconds = 0;                                         ///< from begin() to the end of its thread
  double stall_seconds = 0;  ///< that the training's thread stood still in begin, settle and finish
};

/// Whether the training goes on meanwhile. Where it does not, nothing is copied.
enum class SaveMode { beside_training, alone };

class StateSaver {
 public:
  /// `keep`: how many of the run's checkpoints stay. Peers and optimizer outlive it.
  StateSaver(Peers& peers, ShardedOptimizer& optimizer, std::filesystem::path run_folder, int64_t keep);
  ~StateSaver();  ///< waits for a save in flight
  StateSaver(const StateSaver&) = delete;
  StateSaver& operator=(const StateSaver&) = delete;

  // All of these from the training's thread.
  /// [all ranks at the same step; none may be in flight] Between this and finish() nothing may change parameters or
  /// moments but after settle(), and nothing at all where mode is `alone`.
  void begin(const SaveRequest& request, SaveMode mode);
  void settle();
  /// The outcome of a save that has ended; nothing when there is none, or it is still in flight.
  std::optional<SaveOutcome> take();
  /// The same, but waits for one in flight.
  std::optional<SaveOutcome> finish();

 private:
  struct Work;
  SaveOutcome run(Work work);
  void copy(std::vector<StateFlat>& flats, SaveMode mode);
  void write(const Work& work, SaveOutcome& outcome);
  void gather_and_publish(FolderDraft& draft, const Work& work, const std::vector<std::string>& reports);
  void clear_older(SaveOutcome& outcome) const;

  Peers& peers_;
  ShardedOptimizer& optimizer_;
  std::filesystem::path run_folder_;
  int64_t keep_;
  int64_t begun_ = 0;                ///< saves so far: makes each one's exchanges its own
  std::vector<at::Tensor> buffers_;  ///< of the copies, by flat
  std::future<void> copied_;
  std::future<SaveOutcome> running_;
  double stall_seconds_ = 0;
};

}  // namespace wmtp
