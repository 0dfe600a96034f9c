// A promise of shard/parameter_group.hpp and comm/torch/shared_memory_backend.hpp, seen in whole steps: ranks delayed
// at random points train to the same bits. An operation's output only arrives when it is waited for, so that code which
// reads it, or overwrites the input, without waiting is detected.
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/torch/shared_memory_backend.hpp"
#include "support/answers.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::baseline;
using test::keeps_excess;
using test::tiny_experiment;
using test::TinyTraining;

/// Starts only when it is waited for.
class LateWork final : public c10d::Work {
 public:
  LateWork(std::function<c10::intrusive_ptr<c10d::Work>()> begin, std::chrono::microseconds late)
      : begin_(std::move(begin)), late_(late) {}
  bool wait(std::chrono::milliseconds timeout) override {
    std::this_thread::sleep_for(late_);
    return begin_()->wait(timeout);
  }

 private:
  std::function<c10::intrusive_ptr<c10d::Work>()> begin_;
  std::chrono::microseconds late_;
};

class LateBackend final : public c10d::Backend {
 public:
  explicit LateBackend(c10::intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)), random_(unsigned(rank_)) {}
  const std::string getBackendName() const override { return "late"; }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10d::Work> _allgather_base(Tensor& output, Tensor& input,
                                                 const c10d::AllgatherOptions& /*options*/) override {
    return later(output, input, [this, output, input]() mutable { return inner_->_allgather_base(output, input); });
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& /*equal*/,
                                               std::vector<int64_t>& /*parts*/,
                                               const c10d::AllToAllOptions& /*options*/) override {
    return later(output, input, [this, output, input]() mutable {
      std::vector<int64_t> equal_parts;
      return inner_->alltoall_base(output, input, equal_parts, equal_parts);
    });
  }

 private:
  template <class Begin>
  c10::intrusive_ptr<c10d::Work> later(Tensor output, Tensor input, Begin begin) {
    const Tensor sent = input.clone();  // may be a part of the output
    output.fill_(NAN);
    if (input.is_alias_of(output)) input.copy_(sent);
    std::this_thread::sleep_for(drawn());
    return c10::make_intrusive<LateWork>(std::move(begin), drawn());
  }
  /// Half of the time none, else up to 2 ms.
  std::chrono::microseconds drawn() {
    const unsigned number = random_();
    return std::chrono::microseconds(number % 2 == 0 ? 0 : number / 2 % 2000);
  }
  c10::intrusive_ptr<c10d::Backend> inner_;
  std::minstd_rand random_;
};

MakeBackend late(MakeBackend inner) {
  return [inner = std::move(inner)](const c10::intrusive_ptr<c10d::Store>& store, const RankAxis& axis,
                                    std::chrono::milliseconds timeout) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<LateBackend>(inner(store, axis, timeout));
  };
}

/// Losses and gradient norms of rank 0's steps.
std::vector<double> numbers_of(const Experiment& experiment, int ranks, const MakeBackend& exchange, bool selects) {
  std::vector<double> numbers;
  test::on_ranks(
      ranks,
      [&](Channels& channels) {
        TinyTraining training(experiment, selects ? keeps_excess() : baseline(), channels);
        for (int i = 0; i < 4; ++i) {
          const StepReport report = training->step();
          if (channels.rank() == 0) numbers.insert(numbers.end(), {report.loss, report.metrics.at("train/grad_norm")});
        }
      },
      exchange);
  return numbers;
}

TEST(LateRanks, TrainToTheSameBits) {
  const MakeBackend memory = shared_memory_or(gloo("127.0.0.1"));
  Experiment experiment = tiny_experiment();
  experiment.train.gradient_accumulation = 2;
  experiment.parallel.shard_group_size = 2;
  for (const auto& [strategy, ranks] : {std::pair{Strategy::no_shard, 2}, std::pair{Strategy::shard_grad_op, 2},
                                        std::pair{Strategy::full_shard, 3}, std::pair{Strategy::hybrid_shard, 4}})
    for (const double checkpointing : {0.0, 1.0}) {
      experiment.train.batch_size = 1;
      experiment.parallel.strategy = strategy;
      experiment.parallel.activation_checkpointing = checkpointing;
      const bool selects = checkpointing == 0;
      const auto wanted = numbers_of(experiment, ranks, memory, selects);
      ASSERT_EQ(wanted.size(), 8);
      EXPECT_EQ(numbers_of(experiment, ranks, late(memory), selects), wanted)
          << to_string(strategy) << ", checkpointing " << checkpointing;
    }
}

}  // namespace
}  // namespace wmtp
