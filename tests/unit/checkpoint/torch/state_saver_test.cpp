// Saves a small model in which every value identifies its tensor and element, so that after loading in any layout each
// rank can check its shards.
#include "checkpoint/torch/state_saver.hpp"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "base/files.hpp"
#include "checkpoint/retention.hpp"
#include "checkpoint/torch/folder_copies.hpp"
#include "checkpoint/torch/training_state.hpp"
#include "memory/allocator.hpp"
#include "shard/sharded_model.hpp"
#include "support/ranks.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

using at::Tensor;

ModelConfig small_model() {
  ModelConfig model;
  model.dim = 20;  // 20 * 28 and 20 * 34 are not divisible by 3 or 64
  model.layers = 3;
  model.heads = model.kv_heads = 2;
  model.ffn_dim = 28;
  model.vocab_size = 34;
  model.future_tokens = 2;
  return model;
}

/// The value of one element: exact in fp32, and different for every position.
float value_of(const std::string& logical_name, int64_t element, int64_t version) {
  return float(std::hash<std::string>{}(logical_name) % 4001) * 1024 + float(element % 1021) + float(version) / 4;
}

class Everything : public Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};

struct Layout {
  int ranks;
  Strategy strategy;
  int shard_group_size = 0;
};

std::string text_of(const Layout& layout) {
  return std::to_string(layout.ranks) + " ranks under " + to_string(layout.strategy) + " " +
         std::to_string(layout.shard_group_size);
}

/// Model and optimizer on this rank. `weights`: their dtype when they are used.
class State {
 public:
  State(const Layout& layout, Channels& channels, const std::optional<OptimizerStateFileOptions>& file = {},
        at::ScalarType weights = at::kFloat)
      : config_(small_model()) {
    ShardedModelRequest request;
    request.spec.model = &config_;
    request.spec.heads = Heads::all;
    request.spec.adapter = &adapter_;
    request.options.strategy = layout.strategy;
    request.options.shard_group_size = layout.shard_group_size;
    request.options.param_dtype = weights;
    request.options.masters_in_file = file.has_value();
    request.sequence_length = 8;
    model_ = std::make_unique<ShardedModel>(request, channels);
    optimizer_ = std::make_unique<ShardedOptimizer>(OptimizerConfig{}, model_->trained_groups(), /*ema=*/0, file);
  }
  ShardedOptimizer& optimizer() { return *optimizer_; }

  void fill(int64_t version) {
    each([&](const std::string& name, int64_t begin, Tensor part) {
      auto* values = part.mutable_data_ptr<float>();
      for (int64_t i = 0; i < part.numel(); ++i) values[i] = value_of(name, begin + i, version);
    });
    for (auto& state : optimizer_->states()) state.steps = version;
  }

  int64_t wrong_elements(int64_t version) {
    int64_t wrong = 0;
    each([&](const std::string& name, int64_t begin, const Tensor& part) {
      const float* found = part.const_data_ptr<float>();
      for (int64_t i = 0; i < part.numel(); ++i) wrong += found[i] != value_of(name, begin + i, version);
    });
    for (auto& state : optimizer_->states()) wrong += state.steps != version;
    return wrong;
  }

 private:
  template <class Visit>
  void each(Visit visit) {
    std::vector<ShardedOptimizer::State*> all;
    for (auto& state : optimizer_->states()) all.push_back(&state);
    optimizer_->for_each_block(all, BlockAccess::change, [&](ShardedOptimizer::State& state, const StateBlock& block) {
      each_part("param/", *state.group, block.master, block.end, visit);
      each_part("exp_avg/", *state.group, block.exp_avg, block.end, visit);
      each_part("exp_avg_sq/", *state.group, block.exp_avg_sq, block.end, visit);
    });
  }
  template <class Visit>
  static void each_part(const std::string& prefix, const ParameterGroup& group, const Tensor& flat, int64_t end,
                        Visit visit) {
    group.for_each_part(flat, end, [&](const FlatParameter& placed, int64_t begin, Tensor part) {
      visit(prefix + placed.spec.name, begin, part);
    });
  }
  ModelConfig config_;
  Everything adapter_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
};

const std::map<std::string, Tensor> no_pipeline_state;

SaveRequest request_of(int64_t step, const std::map<std::string, Tensor>& pipeline_state = no_pipeline_state) {
  return {step, "a hash", {{"pipeline p", "sha"}}, {}, &pipeline_state};
}

const Layout layouts[] = {{1, Strategy::full_shard},      {2, Strategy::no_shard},       {3, Strategy::full_shard},
                          {2, Strategy::shard_grad_op},   {4, Strategy::full_shard},     {4, Strategy::hybrid_shard, 2},
                          {2, Strategy::hybrid_shard, 1}, {3, Strategy::shard_optimizer}};

TEST(StateSaver, LoadsEverySavedLayoutInEveryOtherLayout) {
  for (const Layout& saved : layouts) {
    TestFolder folder(memory_folder());
    on_ranks(saved.ranks, [&](Channels& channels) {
      State state(saved, channels);
      state.fill(7);
      StateSaver saver(channels.peers(), state.optimizer(), folder.path(), {2});
      saver.begin(request_of(7), SaveMode::concurrent);
      EXPECT_EQ(saver.finish()->failure, "");
    });
    int64_t elements = 0;
    for (const Slice& slice : verify_checkpoint(folder / "step-000007").slices)
      if (slice.tensor == "param/output.weight") elements += slice.end - slice.begin;
    EXPECT_EQ(elements, 34 * 20) << "each element is saved once, " << text_of(saved);
    for (const Layout& loaded : layouts)
      on_ranks(loaded.ranks, [&](Channels& channels) {
        State state(loaded, channels);
        std::map<std::string, Tensor> pipeline_state;
        EXPECT_EQ(load_training_state(folder / "step-000007", state.optimizer(), pipeline_state).manifest.world_size,
                  saved.ranks);
        EXPECT_EQ(state.wrong_elements(7), 0) << text_of(saved) << " loaded by " << text_of(loaded);
      });
  }
}

std::vector<std::string> rank_files(const fs::path& checkpoint, int ranks) {
  std::vector<std::string> files;
  for (int rank = 0; rank < ranks; ++rank) files.push_back(get(checkpoint / rank_file_name(rank)));
  return files;
}

void expect_same_bytes_from_a_file(at::ScalarType weights) {
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(text_of(layout));
    TestFolder folder(memory_folder());
    const OptimizerStateFileOptions file{folder.path(), 192};  // shorter than most parameters
    for (const SaveMode mode : {SaveMode::alone, SaveMode::concurrent})
      on_ranks(layout.ranks, [&](Channels& channels) {
        State in_memory(layout, channels, {}, weights), in_file(layout, channels, file, weights);
        for (const auto& [state, name] : {std::pair{&in_memory, "memory"}, std::pair{&in_file, "file"}}) {
          state->fill(7);
          StateSaver saver(channels.peers(), state->optimizer(), folder / name, {2});
          saver.begin(request_of(mode == SaveMode::alone ? 7 : 8), mode);
          saver.wait_for_copies();
          if (mode == SaveMode::concurrent) state->fill(9);  // as the next step does
          EXPECT_EQ(saver.finish()->failure, "");
        }
      });
    for (const std::string step : {"step-000007", "step-000008"}) {
      verify_checkpoint(folder / "file" / step);
      EXPECT_EQ(rank_files(folder / "file" / step, layout.ranks), rank_files(folder / "memory" / step, layout.ranks));
    }
    on_ranks(layout.ranks, [&](Channels& channels) {
      State in_memory(layout, channels, {}, weights), in_file(layout, channels, file, weights);
      std::map<std::string, Tensor> pipeline_state;
      load_training_state(folder / "file" / "step-000007", in_memory.optimizer(), pipeline_state);
      load_training_state(folder / "memory" / "step-000007", in_file.optimizer(), pipeline_state);
      EXPECT_EQ(in_memory.wrong_elements(7) + in_file.wrong_elements(7), 0);
    });
  }
}

TEST(StateSaver, SavesTheSameBytesFromAFileAndLoadsEitherIntoEither) { expect_same_bytes_from_a_file(at::kFloat); }

TEST(StateSaver, SavesTheSameBytesOfMastersFromAFile) { expect_same_bytes_from_a_file(at::kBFloat16); }

TEST(StateSaver, CopiesOnlyParametersInMemoryIfTheRestIsInAFile) {
  install_allocator();
  TestFolder folder(memory_folder());
  SingleRank rank;
  for (const at::ScalarType weights : {at::kFloat, at::kBFloat16}) {
    State state({1, Strategy::full_shard}, rank.channels, OptimizerStateFileOptions{folder.path(), 192}, weights);
    state.fill(1);
    StateSaver saver(rank.peers, state.optimizer(), folder / c10::toString(weights), {9});
    const int64_t before = memory_usage().live[int(MemoryCategory::checkpoint)];
    saver.begin(request_of(1), SaveMode::concurrent);
    EXPECT_EQ(saver.finish()->failure, "");
    int64_t parameters = 0;
    for (const auto& one : state.optimizer().states()) parameters += 4 * one.group->shard_size();
    EXPECT_EQ(memory_usage().live[int(MemoryCategory::checkpoint)], before + (weights == at::kFloat ? parameters : 0));
  }
}

/// Ranks 0 and 1 see the folder "a", ranks 2 and 3 see "b".
const FileWriters two_folders({0, 0, 2, 2});
fs::path seen_by(int rank, const TestFolder& folder) { return folder / (rank < 2 ? "a" : "b") / "run"; }

void wait_for_all(Channels& channels) {
  channels.peers().gather("waiting", "");
  channels.peers().broadcast("waiting", "");
}

TEST(StateSaver, KeepsTheFilesOfRanksThatSeeAnotherFolderThereAndGathersThemToLoad) {
  TestFolder folder(memory_folder());
  const Layout layout{4, Strategy::full_shard};
  on_ranks(4, [&](Channels& channels) {
    const fs::path here = seen_by(channels.rank(), folder);
    State state(layout, channels);
    StateSaver saver(channels.peers(), state.optimizer(), here, {2}, two_folders);
    for (const int64_t step : {1, 2, 3}) {
      state.fill(step);
      saver.begin(request_of(step), SaveMode::concurrent);
      EXPECT_EQ(saver.finish()->failure, "");
    }
    wait_for_all(channels);
    EXPECT_EQ(list_checkpoints(here).size(), 2u) << "as many as rank 0 keeps";
    EXPECT_EQ(paths_in(here / "step-000003").size(), channels.rank() < 2 ? 3u : 2u);
    EXPECT_EQ(verify_checkpoint(seen_by(0, folder) / "step-000003").hosts.size(), 2u);
    wait_for_all(channels);

    for (int times = 0; times < 2; ++times) {  // the second time nothing is missing
      complete_on_every_host(channels, two_folders, here / "step-000003");
      EXPECT_EQ(intact_files(here / "step-000003", read_manifest(here / "step-000003")).size(), 4u);
    }
    std::map<std::string, Tensor> pipeline_state;
    load_training_state(here / "step-000003", state.optimizer(), pipeline_state);
    EXPECT_EQ(state.wrong_elements(3), 0);
  });
  on_ranks(2, [&](Channels& channels) {
    EXPECT_SAYS(refusal(ExitStatus::data,
                        [&] { complete_on_every_host(channels, FileWriters(), seen_by(0, folder) / "step-000002"); }),
                "rank-0002.safetensors: no host of this job has it; host ");
  });
}

TEST(StateSaver, AFailureOfOneKeeperLeavesTheCheckpointInNoFolder) {
  for (const std::string broken : {"a", "b"}) {
    TestFolder folder(memory_folder());
    on_ranks(4, [&](Channels& channels) {
      const fs::path here = seen_by(channels.rank(), folder);
      State state({4, Strategy::full_shard}, channels);
      StateSaver saver(channels.peers(), state.optimizer(), here, {2}, two_folders);
      if (channels.rank() == 0)
        set_file_hook([&](FileOperation operation, const fs::path& path) {
          if (operation == FileOperation::rename && path.parent_path().parent_path().filename() == broken)
            throw std::system_error(ENOSPC, std::generic_category());
        });
      wait_for_all(channels);
      saver.begin(request_of(1), SaveMode::concurrent);
      EXPECT_NE(saver.finish()->failure, "");
      wait_for_all(channels);
      EXPECT_TRUE(paths_in(here).empty()) << here;
      if (channels.rank() == 0) set_file_hook(nullptr);
    });
  }
}

TEST(StateSaver, SavesTheValuesAtBeginWhateverTrainingDoesAfterTheCopy) {
  TestFolder folder(memory_folder());
  on_ranks(2, [&](Channels& channels) {
    State state({2, Strategy::full_shard}, channels);
    std::map<std::string, Tensor> remembered{{"count", at::full({3}, 4, at::kLong)}};
    StateSaver saver(channels.peers(), state.optimizer(), folder.path(), {2});
    for (const int64_t step : {1, 2}) {
      state.fill(step);
      remembered["count"].fill_(step);
      saver.begin(request_of(step, remembered), SaveMode::concurrent);
      remembered["count"].fill_(99);
      saver.wait_for_copies();
      state.fill(100 + step);
      EXPECT_EQ(saver.finish()->failure, "");
    }
    channels.peers().broadcast("saved", "saved");
    for (const int64_t step : {1, 2}) {
      std::map<std::string, Tensor> pipeline_state;
      load_training_state(folder / checkpoint_name(step), state.optimizer(), pipeline_state);
      EXPECT_EQ(state.wrong_elements(step), 0);
      EXPECT_TRUE(at::equal(pipeline_state.at("count"), at::full({3}, step, at::kLong)));
    }
  });
}

TEST(StateSaver, ReusesItsBuffersAndNeedsNoneIfTrainingWaits) {
  install_allocator();
  TestFolder folder(memory_folder());
  SingleRank rank;
  State state({1, Strategy::full_shard}, rank.channels);
  state.fill(1);
  StateSaver saver(rank.peers, state.optimizer(), folder.path(), {9});
  const auto live = [] { return memory_usage().live[int(MemoryCategory::checkpoint)]; };
  const int64_t before = live();
  saver.begin(request_of(1), SaveMode::alone);
  saver.finish();
  EXPECT_EQ(live(), before);
  saver.begin(request_of(2), SaveMode::concurrent);
  saver.finish();
  int64_t bytes = 0;
  for (const StateFlat& flat : state_flats(state.optimizer())) bytes += int64_t(flat.values.nbytes());
  EXPECT_EQ(live(), before + bytes);
  saver.begin(request_of(3), SaveMode::concurrent);
  saver.finish();
  EXPECT_EQ(live(), before + bytes);
}

TEST(StateSaver, AFailureAnywhereIsTheOutcomeOnEveryRankAndKeepsOlderCheckpoints) {
  struct Fault {
    FileOperation operation;
    std::string file;
  };
  for (const Fault& fault :
       {Fault{FileOperation::write, "rank-0001.safetensors"}, Fault{FileOperation::fsync, "rank-0000.safetensors"},
        Fault{FileOperation::create_folder, "step-000002"}, Fault{FileOperation::write, "manifest.json"},
        Fault{FileOperation::rename, "step-000002"}}) {
    TestFolder folder(memory_folder());
    on_ranks(2, [&](Channels& channels) {
      State state({2, Strategy::full_shard}, channels);
      StateSaver saver(channels.peers(), state.optimizer(), folder.path(), {3});
      const auto save = [&](int64_t step) {
        state.fill(step);
        saver.begin(request_of(step), SaveMode::concurrent);
        return *saver.finish();
      };
      EXPECT_EQ(save(1).failure, "");
      channels.peers().broadcast("the first save", "ended");
      if (channels.rank() == 0)
        set_file_hook([&](FileOperation operation, const fs::path& path) {
          if (operation == fault.operation && path.filename().string().starts_with(fault.file))
            throw std::system_error(ENOSPC, std::generic_category());
        });
      channels.peers().broadcast("the fault", "set");
      const SaveOutcome failed = save(2);
      EXPECT_SAYS(failed.failure, "No space left");
      EXPECT_FALSE(failed.rank_lost);
      channels.peers().gather("the failure", "seen");
      if (channels.rank() == 0) {
        EXPECT_EQ(newest_intact(folder.path(), {})->manifest.step, 1);
        EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator{}), 1) << fault.file;
        set_file_hook({});
      }
      channels.peers().broadcast("the fault", "gone");
      EXPECT_EQ(save(3).failure, "") << "the next save succeeds";
    });
    EXPECT_EQ(newest_intact(folder.path(), {})->manifest.step, 3);
  }
}

/// Rewrites rank 1's file with every byte zero and one entry in another dtype, and a manifest that agrees with it.
void change_dtype(const fs::path& checkpoint, const std::string& tensor, const std::string& dtype) {
  const std::string name = rank_file_name(1);
  std::vector<TensorEntry> entries = SafetensorsFile(checkpoint / name).entries();
  fs::remove(checkpoint / name);
  for (TensorEntry& entry : entries)
    if (entry.name == tensor) entry.dtype = dtype;
  Manifest manifest = read_manifest(checkpoint);
  fs::remove(checkpoint / "manifest.json");
  SafetensorsWriter writer(checkpoint / name, entries, {});
  for (Slice& slice : manifest.slices) {
    if (slice.file != name) continue;
    const int64_t bytes = (slice.end - slice.begin) * dtype_size(slice.entry == tensor ? dtype : "F32");
    const std::string zeros(size_t(bytes), '\0');
    writer.write(slice.entry, 0, zeros.data(), zeros.size());
    slice.crc32c = crc32c(zeros.data(), zeros.size());
  }
  writer.finish();
  manifest.files.clear();
  write_manifest(checkpoint, manifest);
}

TEST(StateSaver, RefusesAnIncompleteCheckpointBeforeAnythingIsChanged) {
  const auto expect_refused = [](const std::string& part, const std::function<void(const fs::path&)>& change) {
    TestFolder folder(memory_folder());
    on_ranks(2, [&](Channels& channels) {
      State state({2, Strategy::full_shard}, channels);
      state.fill(1);
      StateSaver saver(channels.peers(), state.optimizer(), folder.path(), {2});
      saver.begin(request_of(1), SaveMode::alone);
      EXPECT_EQ(saver.finish()->failure, "");
    });
    const fs::path checkpoint = folder / checkpoint_name(1);
    change(checkpoint);
    SingleRank rank;
    State state({1, Strategy::full_shard}, rank.channels);
    state.fill(2);
    std::map<std::string, Tensor> pipeline_state;
    const std::string text =
        refusal(ExitStatus::data, [&] { load_training_state(checkpoint, state.optimizer(), pipeline_state); });
    EXPECT_SAYS(text, part);
    EXPECT_EQ(state.wrong_elements(2), 0) << text;
  };
  const auto change_manifest = [](const std::function<void(Manifest&)>& change) {
    return [change](const fs::path& checkpoint) {
      Manifest manifest = read_manifest(checkpoint);
      fs::remove(checkpoint / "manifest.json");
      change(manifest);
      manifest.files.clear();
      write_manifest(checkpoint, manifest);
    };
  };
  const std::string wanted = "tensor \"exp_avg/output.weight\" is BF16; wanted F32";
  expect_refused(rank_file_name(1) + ": " + wanted,
                 [](const fs::path& checkpoint) { change_dtype(checkpoint, "exp_avg/output.weight", "BF16"); });
  expect_refused("optimizer_steps has no '",
                 change_manifest([](Manifest& manifest) { manifest.state["optimizer_steps"] = Json::object(); }));
  expect_refused("tensor 'param/output.weight': its shape is", change_manifest([](Manifest& manifest) {
                   for (Slice& slice : manifest.slices)
                     if (slice.tensor == "param/output.weight") slice.shape = {20, 34};
                 }));
  expect_refused("tensor 'exp_avg_sq/output.weight': it is missing", change_manifest([](Manifest& manifest) {
                   for (Slice& slice : manifest.slices)
                     if (slice.tensor == "exp_avg_sq/output.weight") slice.tensor = "exp_avg_sq/other";
                 }));
}

TEST(StateSaver, PublishesOnlyAfterWhatAResumedRunNeedsElsewhere) {
  TestFolder folder(memory_folder());
  on_ranks(2, [&](Channels& channels) {
    State state({2, Strategy::full_shard}, channels);
    state.fill(1);
    StateSaver saver(channels.peers(), state.optimizer(), folder.path(), {1});
    SaveRequest request = request_of(1);
    int calls = 0;
    request.before_publishing = [&] {
      ++calls;
      EXPECT_EQ(list_checkpoints(folder.path()), std::vector<fs::path>{});
    };
    saver.begin(request, SaveMode::concurrent);
    EXPECT_EQ(saver.finish()->failure, "");
    EXPECT_EQ(calls, channels.rank() == 0 ? 1 : 0);
    EXPECT_EQ(list_checkpoints(folder.path()), std::vector<fs::path>{folder / "step-000001"});
  });
}

/// Fails the first allocation of a thread that it does not know.
class AllocatorThatFailsOnce final : public c10::Allocator {
 public:
  AllocatorThatFailsOnce() { c10::SetCPUAllocator(this, /*priority=*/100); }
  ~AllocatorThatFailsOnce() { c10::SetCPUAllocator(inner_, /*priority=*/100); }
  void know_this_thread() {
    const std::lock_guard lock(mutex_);
    known_.insert(std::this_thread::get_id());
  }
  void arm() { armed_ = true; }
  c10::DataPtr allocate(size_t bytes) override {
    std::unique_lock lock(mutex_);
    const bool fails = bytes > 0 && !known_.contains(std::this_thread::get_id()) && armed_.exchange(false);
    lock.unlock();
    if (fails) throw std::bad_alloc();
    return inner_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }

 private:
  c10::Allocator* inner_ = c10::GetCPUAllocator();
  std::mutex mutex_;
  std::set<std::thread::id> known_;
  std::atomic<bool> armed_ = false;
};

TEST(StateSaver, ACopyThatFailsOnOneRankFailsTheSaveOnAll) {
  TestFolder folder(memory_folder());
  AllocatorThatFailsOnce allocator;
  on_ranks(2, [&](Channels& channels) {
    allocator.know_this_thread();
    State state({2, Strategy::full_shard}, channels);
    StateSaver saver(channels.peers(), state.optimizer(), folder.path(), {3});
    state.fill(1);
    channels.peers().gather("the state", "made");
    if (channels.rank() == 0) allocator.arm();
    channels.peers().broadcast("the state", "made");
    saver.begin(request_of(1), SaveMode::concurrent);
    const SaveOutcome failed = *saver.finish();
    EXPECT_NE(failed.failure, "");
    EXPECT_FALSE(failed.rank_lost);
    channels.peers().gather("the failure", "seen");
    channels.peers().broadcast("the failure", "seen");
    saver.begin(request_of(2), SaveMode::concurrent);
    EXPECT_EQ(saver.finish()->failure, "") << "the next save succeeds";
  });
  EXPECT_EQ(newest_intact(folder.path(), {})->manifest.step, 2);
}

TEST(StateSaver, FailsIfWhatItWroteIsDamaged) {
  TestFolder folder(memory_folder());
  SingleRank rank;
  State state({1, Strategy::full_shard}, rank.channels);
  StateSaver saver(rank.peers, state.optimizer(), folder.path(), {1});
  for (const int64_t step : {1, 2}) {
    state.fill(step);
    SaveRequest request = request_of(step);
    if (step == 2)
      request.before_publishing = [&] {
        for (const auto& file : fs::recursive_directory_iterator(folder.path()))
          if (file.is_regular_file() && file.file_size() > 64 &&
              file.path().parent_path().filename() != checkpoint_name(1))
            fs::resize_file(file.path(), 64);
      };
    saver.begin(request, SaveMode::concurrent);
    const SaveOutcome outcome = *saver.finish();
    if (step == 1) continue;
    EXPECT_SAYS(outcome.failure, "damaged while it was written");
    ASSERT_EQ(outcome.damaged.size(), 1u);
    EXPECT_EQ(outcome.damaged.begin()->first, folder / "step-000002");
  }
  EXPECT_EQ(list_checkpoints(folder.path()), std::vector<fs::path>{folder / "step-000001"});
}

TEST(StateSaver, DeletesOlderCheckpointsOnlyAfterTheNewOneIsPublished) {
  TestFolder folder(memory_folder());
  SingleRank rank;
  State state({1, Strategy::full_shard}, rank.channels);
  state.fill(1);
  StateSaver saver(rank.peers, state.optimizer(), folder.path(), {1});
  for (const int64_t step : {1, 2}) {
    saver.begin(request_of(step), SaveMode::concurrent);
    const SaveOutcome outcome = *saver.finish();
    EXPECT_EQ(outcome.folder, folder / checkpoint_name(step));
    EXPECT_EQ(outcome.deleted.size(), step == 2 ? 1u : 0u);
  }
  EXPECT_EQ(list_checkpoints(folder.path()), std::vector<fs::path>{folder / "step-000002"});
  EXPECT_FALSE(saver.take().has_value()) << "every outcome is returned once";
}

}  // namespace
}  // namespace wmtp::test
