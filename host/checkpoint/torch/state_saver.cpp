#include "checkpoint/torch/state_saver.hpp"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>

#include "base/time_use.hpp"
#include "comm/refusal.hpp"
#include "comm/torch/background_store.hpp"
#include "io/crash_points.hpp"
#include "io/durable_file.hpp"
#include "memory/allocator.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

/// Adds its lifetime to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += seconds_since(start_); }
  Stopwatch(const Stopwatch&) = delete;

 private:
  double& sum_;
  Clock::time_point start_ = Clock::now();
};

/// A CUDA stream for copies that run while the training stream computes. They are ordered after the work that training
/// had launched when this object was created. [training thread]
class CopyStream {
 public:
  explicit CopyStream(const at::Device& device) : stream_(guard_.getStreamFromGlobalPool(device)) {
    launched_.record(guard_.getStream(device));
  }
  /// Calls copies(), which enqueues copies on this stream, and waits for them. [any thread]
  template <class Copies>
  void run(Copies copies) {
    const c10::StreamGuard here(stream_);
    launched_.block(stream_);
    copies();
    stream_.synchronize();
  }

 private:
  c10::impl::VirtualGuardImpl guard_{c10::DeviceType::CUDA};
  c10::Stream stream_;
  c10::Event launched_{c10::DeviceType::CUDA};
};

}  // namespace

/// Everything that a save's thread needs.
struct StateSaver::Work {
  std::string name;  ///< for the exchanges between ranks
  SaveMode mode;
  Clock::time_point begun;
  std::filesystem::path target;
  Manifest manifest;  ///< without slices
  std::vector<StateFlat> flats;
  std::optional<CopyStream> stream;             ///< if flats are on a CUDA device
  std::map<std::string, Tensor> named_tensors;  ///< [rank 0] copies, unless alone
  std::function<void(const std::filesystem::path&)> describe;
  std::function<void()> before_publishing;
  std::promise<void> copied;
};

StateSaver::StateSaver(Peers& peers, ShardedOptimizer& optimizer, std::filesystem::path run_folder,
                       const Retention& keep, FileWriters writers)
    : peers_(peers),
      optimizer_(optimizer),
      run_folder_(std::move(run_folder)),
      keep_(keep),
      writers_(std::move(writers)) {
  check_crash_points();
}

StateSaver::~StateSaver() {
  if (running_.valid()) running_.wait();
}

void StateSaver::begin(const SaveRequest& request, SaveMode mode) {
  if (running_.valid()) throw Error(ExitStatus::bug, "a save was begun while another one was in flight");
  stall_seconds_ = 0;
  const Stopwatch watch(stall_seconds_);
  const MemoryScope scope(MemoryCategory::checkpoint);
  Work work;
  work.name = "saving " + run_folder_.filename().string() + " " + std::to_string(++begun_);
  work.mode = mode;
  work.begun = Clock::now();
  work.target = run_folder_ / checkpoint_name(request.step);
  work.manifest.step = request.step;
  work.manifest.world_size = peers_.size();
  work.manifest.kind = ManifestKind::resume;
  work.manifest.config_hash = request.config_hash;
  work.manifest.plugins = request.plugins;
  work.describe = request.describe;
  work.before_publishing = request.before_publishing;
  SavedState saved = request.state;
  for (const ShardedOptimizer::State& state : optimizer_.states())
    saved.optimizer_steps[state.group->unit()] = state.steps;
  for (const auto& [name, tensor] : *request.named_tensors) {
    saved.pipeline_state_shapes[name] = tensor.sizes().vec();
    if (peers_.rank() == 0)
      work.named_tensors[name] = tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false,
                                                    /*copy=*/mode == SaveMode::concurrent);
  }
  work.manifest.state = to_json(saved);
  work.flats = state_flats(optimizer_);
  for (const StateFlat& flat : work.flats)
    if (flat.values.defined() && flat.values.is_cuda() && !work.stream) work.stream.emplace(flat.values.device());
  copied_ = work.copied.get_future();
  running_ = std::async(std::launch::async, [this, work = std::move(work)]() mutable { return run(std::move(work)); });
}

void StateSaver::wait_for_copies() {
  if (!copied_.valid()) return;
  const Stopwatch watch(stall_seconds_);
  std::exchange(copied_, {}).wait();
}

std::optional<SaveOutcome> StateSaver::take() {
  if (!running_.valid() || running_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  return finish();
}

std::optional<SaveOutcome> StateSaver::finish() {
  if (!running_.valid()) return std::nullopt;
  {
    const Stopwatch watch(stall_seconds_);
    running_.wait();
  }
  copied_ = {};
  SaveOutcome outcome = running_.get();
  outcome.stall_seconds = stall_seconds_;
  return outcome;
}

SaveOutcome StateSaver::run(Work work) {
  SaveOutcome outcome;
  outcome.step = work.manifest.step;
  outcome.folder = work.target;
  try {
    const std::optional<Error> not_copied = failure_of([&] {
      if (work.stream)
        work.stream->run([&] { copy(work.flats, work.mode); });
      else
        copy(work.flats, work.mode);
    });
    if (!optimizer_.is_in_file()) work.copied.set_value();
    crash_here(CrashPoint::copied);
    write(work, not_copied, outcome);
  } catch (const Error& error) {
    outcome.failure = error.what();
    outcome.rank_lost = error.status() == ExitStatus::peer;
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  outcome.seconds = seconds_since(work.begun);
  return outcome;
}

void StateSaver::copy(std::vector<StateFlat>& flats, SaveMode mode) {
  const MemoryScope scope(MemoryCategory::checkpoint);
  if (mode == SaveMode::alone) {
    for (StateFlat& flat : flats)
      if (flat.values.defined()) flat.values = flat.values.to(at::kCPU);
    return;
  }
  buffers_.resize(flats.size());
  for (size_t i = 0; i < flats.size(); ++i) {
    if (!flats[i].values.defined()) continue;
    const Tensor live = std::move(flats[i].values);
    if (!buffers_[i].defined())
      buffers_[i] = at::empty(live.sizes(), at::TensorOptions(live.scalar_type()).pinned_memory(live.is_cuda()));
    // LibTorch's copy would start threads in addition to the training's.
    if (live.is_cpu())
      std::memcpy(buffers_[i].mutable_data_ptr(), live.const_data_ptr(), size_t(live.nbytes()));
    else
      buffers_[i].copy_(live, /*non_blocking=*/true);
    flats[i].values = buffers_[i];
  }
}

/// Also where this rank has nothing to write, because the others wait for its answer.
void StateSaver::write(Work& work, const std::optional<Error>& not_copied, SaveOutcome& outcome) {
  BackgroundStore store(peers_, work.name);
  const int rank = peers_.rank();
  std::optional<FolderDraft> draft;
  const std::filesystem::path folder = open_draft(store, work, not_copied, draft);
  std::vector<SavedSlice> saved_slices = cut_into_slices(work.flats, work.named_tensors, rank);
  std::string report;
  store.throw_failure_on_any_rank(failure_of([&] {
    report = write_rank_file(folder, saved_slices, rank, work.manifest.state.at("optimizer_steps"), optimizer_, [&] {
      if (optimizer_.is_in_file()) work.copied.set_value();
    });
    if (rank == 0 && work.describe) describe(work, folder, outcome);
  }));
  Manifest manifest = work.manifest;
  bool has_published = false;
  std::optional<Error> failure = store.failure_on_any_rank(failure_of([&] {
    add_reports(store.gather(report), manifest);
    if (!draft || rank == 0) return;
    draft->publish();
    has_published = true;
  }));
  Json kept = Json::array();
  if (rank == 0 && !failure)
    failure = failure_of([&] {
      publish(work, *draft, manifest);
      clear_older(outcome);
      if (const auto own = outcome.damaged.find(work.target); own != outcome.damaged.end())
        throw Error(ExitStatus::storage,
                    own->first.string() + ": " + own->second + "; it was damaged while it was written");
      for (const std::filesystem::path& one : list_checkpoints(run_folder_)) kept.push_back(one.filename().string());
      crash_here(CrashPoint::deleted);
    });
  // Not failure_on_any_rank: once rank 0 has published the manifest, the loss of another rank is no failure of the
  // save.
  const std::string ended = store.broadcast(failure ? refusal_text(*failure) : kept.dump());
  failure = parse_refusal(ended);
  if (has_published)  // the next save tries again
    failure_of([&] { failure ? remove_folder(work.target) : clear_like_rank0(Json::parse(ended)); });
  if (failure) throw *failure;
}

/// [rank 0] A checkpoint that cannot be read as a model, because a file of the tokenizer is gone, can still be resumed.
void StateSaver::describe(const Work& work, const std::filesystem::path& folder, SaveOutcome& outcome) {
  try {
    work.describe(folder);
  } catch (const Error& error) {
    if (error.status() != ExitStatus::data) throw;
    outcome.warnings.emplace_back("checkpoint_not_described",
                                  std::string("the checkpoint can only be resumed from: ") + error.what());
  }
}

/// Returns the folder of this rank's writer; writers create theirs.
std::filesystem::path StateSaver::open_draft(BackgroundStore& store, const Work& work,
                                             const std::optional<Error>& not_copied,
                                             std::optional<FolderDraft>& draft) const {
  store.throw_failure_on_any_rank(failure_of([&] {
    if (not_copied) throw *not_copied;
    if (!is_writer()) return;
    draft.emplace(work.target);
    if (peers_.rank() == 0) crash_here(CrashPoint::draft_made);
  }));
  const std::string mine = draft ? draft->path().string() : "";
  if (writers_.is_shared_folder()) return store.broadcast(mine);
  const std::vector<std::string> opened = Json::parse(store.broadcast(Json(store.gather(mine)).dump()));
  return opened.at(size_t(writers_.writer_for(peers_.rank())));
}

/// [rank 0; does nothing on others, whose list is empty]
void StateSaver::add_reports(const std::vector<std::string>& reports, Manifest& manifest) const {
  for (size_t rank = 0; rank < reports.size(); ++rank)
    add_report(reports[rank], int(rank),
               writers_.writer_for(int(rank)) == 0 ? "" : peers_.locations()[rank].host_name(), manifest);
}

void StateSaver::publish(const Work& work, FolderDraft& draft, const Manifest& manifest) {
  crash_here(CrashPoint::files_complete);
  write_manifest(draft.path(), manifest);
  if (work.before_publishing) work.before_publishing();
  crash_here(CrashPoint::manifest_written);
  draft.publish();
  crash_here(CrashPoint::published);
}

void StateSaver::clear_like_rank0(const std::vector<std::string>& kept) const {
  for (const std::filesystem::path& folder : list_checkpoints(run_folder_))
    if (std::find(kept.begin(), kept.end(), folder.filename().string()) == kept.end()) remove_folder(folder);
}

void StateSaver::clear_older(SaveOutcome& outcome) const {
  const auto damaged = [&](const std::filesystem::path& was, const std::filesystem::path&, const std::string& reason) {
    outcome.damaged[was] = reason;
  };
  try {
    apply_retention(run_folder_, keep_, damaged, outcome.deleted);
  } catch (const std::exception& error) {
    outcome.warnings.emplace_back("checkpoint_not_deleted",
                                  std::string("older checkpoints were not deleted: ") + error.what());
  }
}

}  // namespace wmtp
