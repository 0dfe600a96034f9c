// StateSaver: writes checkpoints for resuming in the background, without blocking training.
//
// A step-NNNNNN/ folder contains one file of shards per rank (rank-RRRR.safetensors: slices of logical tensors
// "param/NAME", "exp_avg/NAME", "exp_avg_sq/NAME"); written by rank 0 the manifest, and the files with which it is a
// model (describe_model, base_model.hpp). A save, on every rank:
// 1. begin() records what to save and copies small values
// 2. a thread copies shards and moments into buffers that later saves reuse. Training continues, and before it changes
//    any of them, a forward and a backward pass later, it waits in wait_for_copies() for this copy. A CUDA device
//    copies on a separate stream. What the optimizer has in a file is not copied: training waits until step 3 has read
//    it, block by block
// 3. every writer (comm/torch/file_writers.hpp; rank 0 if the hosts share the folder) creates a draft of the folder;
//    every rank writes its file into its writer's and fsyncs it
// 4. when all files are reported, writers other than rank 0 publish their folders (io/durable_file.hpp), which have no
//    manifest; then rank 0 writes the manifest, waits until the log has the steps so far, publishes its folder, deletes
//    checkpoints beyond `keep` (checkpoint/retention.hpp), and sends the outcome to the other ranks
// 5. the other writers delete the checkpoints that rank 0 does not have
// A failure anywhere is the outcome on every rank; the drafts are then removed. The ranks communicate through
// BackgroundStore, which uses no connection of the training and gives up if a rank is lost. io/crash_points.hpp lists
// what a crash leaves.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/retention.hpp"
#include "checkpoint/torch/training_state.hpp"
#include "comm/torch/file_writers.hpp"
#include "comm/torch/peers.hpp"

namespace wmtp {

class BackgroundStore;
class FolderDraft;

struct SaveRequest {
  int64_t step = 0;
  std::string config_hash;
  std::map<std::string, std::string> plugins;
  SavedState state;  ///< equal on all ranks; the saver adds the values of optimizer and named_tensors
  /// By name, as the pipeline's states; equal on all ranks, of which rank 0 writes them.
  const std::map<std::string, at::Tensor>* named_tensors;
  /// [rank 0, on the save's thread] Writes files that describe the model into the folder; may be empty.
  std::function<void(const std::filesystem::path& folder)> describe = {};
  /// [rank 0, on the save's thread] Returns when what a resumed run needs elsewhere is on disk, or cannot be written;
  /// may be empty.
  std::function<void()> before_publishing = {};
};

struct SaveOutcome {
  int64_t step = 0;
  std::filesystem::path folder;
  std::string failure;                         ///< why the folder was not written, equal on all ranks; "" on success
  bool rank_lost = false;                      ///< whether the cause is the loss of a rank
  std::vector<std::filesystem::path> deleted;  ///< [rank 0] older checkpoints
  std::map<std::filesystem::path, std::string> damaged;       ///< [rank 0] those that were set aside, and why
  std::vector<std::pair<std::string, std::string>> warnings;  ///< [rank 0] kind of event, and message
  double seconds = 0;                                         ///< from begin() to the end of the save's thread
  double stall_seconds = 0;  ///< time that training was blocked in begin, wait_for_copies and finish
};

/// Whether training continues during the save. If not, nothing is copied.
enum class SaveMode { concurrent, alone };

class StateSaver {
 public:
  /// `keep`: the checkpoints to keep. `writers`: of the run folder. `peers` and `optimizer` must outlive this
  /// object.
  StateSaver(Peers& peers, ShardedOptimizer& optimizer, std::filesystem::path run_folder, const Retention& keep,
             FileWriters writers = {});
  ~StateSaver();  ///< waits for the current save
  StateSaver(const StateSaver&) = delete;
  StateSaver& operator=(const StateSaver&) = delete;

  // Call all of these from the training thread.
  /// [all ranks at the same step; no save in flight] Until finish(), parameters and moments may be changed only after
  /// wait_for_copies(), and in mode `alone` not at all.
  void begin(const SaveRequest& request, SaveMode mode);
  void wait_for_copies();
  /// The outcome of a finished save; nullopt if there is none or it is still in flight.
  std::optional<SaveOutcome> take();
  /// Like take(), but waits for a save in flight.
  std::optional<SaveOutcome> finish();

 private:
  struct Work;
  SaveOutcome run(Work work);
  void copy(std::vector<StateFlat>& flats, SaveMode mode);
  void write(Work& work, const std::optional<Error>& not_copied, SaveOutcome& outcome);
  bool is_writer() const { return writers_.writer_for(peers_.rank()) == peers_.rank(); }
  std::filesystem::path open_draft(BackgroundStore& store, const Work& work, const std::optional<Error>& not_copied,
                                   std::optional<FolderDraft>& draft) const;
  void add_reports(const std::vector<std::string>& reports, Manifest& manifest) const;
  static void describe(const Work& work, const std::filesystem::path& folder, SaveOutcome& outcome);
  static void publish(const Work& work, FolderDraft& draft, const Manifest& manifest);
  void clear_older(SaveOutcome& outcome) const;
  /// [writers other than rank 0] Deletes the checkpoints that rank 0 has not kept.
  void clear_like_rank0(const std::vector<std::string>& kept) const;

  Peers& peers_;
  ShardedOptimizer& optimizer_;
  std::filesystem::path run_folder_;
  Retention keep_;
  FileWriters writers_;
  int64_t begun_ = 0;                ///< number of saves; used in the names of their exchanges
  std::vector<at::Tensor> buffers_;  ///< for the copies, one per flat
  std::future<void> copied_;
  std::future<SaveOutcome> running_;
  double stall_seconds_ = 0;
};

}  // namespace wmtp
