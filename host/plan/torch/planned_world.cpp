#include "plan/torch/planned_world.hpp"

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm/torch/collective_checker.hpp"

namespace wmtp {
namespace {

int64_t ranks_on_host(const WorldShape& world, const RankLine& axis) {
  return std::clamp<int64_t>(world.ranks / world.hosts / axis.stride, 1, axis.size);
}

bool is_border(const WorldShape& world, const RankLine& axis) {
  return world.sections > 1 && axis.size == 2 && axis.stride == world.ranks / world.sections;
}

class PlannedWork final : public c10d::Work {
 public:
  PlannedWork(StepClock& clock, double ends_at, bool at_border)
      : clock_(clock), ends_at_(ends_at), at_border_(at_border) {}
  bool wait(std::chrono::milliseconds) override {
    const double before = clock_.work().seconds;
    clock_.finish(ends_at_);
    if (at_border_) clock_.at_border(clock_.work().seconds - before);
    return true;
  }

 private:
  StepClock& clock_;
  double ends_at_;
  bool at_border_;
};

/// Acts as if every rank had sent the values that this one sends on the host.
class PlannedBackend final : public c10d::Backend {
 public:
  /// Adds its collectives to `issued`.
  PlannedBackend(const WorldShape& world, const RankLine& axis, const FlightRecord& record, StepClock& clock,
                 std::vector<std::string>& issued)
      : Backend(axis.rank, axis.size), world_(world), axis_(axis), record_(record), clock_(clock), issued_(issued) {}
  const std::string getBackendName() const override { return "planned"; }
  void setTimeout(std::chrono::milliseconds) override {}
  void abort() override {}

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions&) override {
    if (!output.is_meta()) output.view({size_, -1}).copy_(input.view({1, -1}).expand({size_, -1}));
    return begun(output, input, all_gather_traffic(world_, axis_, int64_t(input.nbytes())));
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>&,
                                               std::vector<int64_t>&, const c10d::AllToAllOptions&) override {
    return begun(output, input, all_to_all_traffic(world_, axis_, int64_t(input.nbytes())));
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& values, const c10d::BroadcastOptions&) override {
    return begun(values[0], values[0], {});  // only when the final model is saved, which is no part of a step
  }

 private:
  /// Numbers on the host, such as a step's totals, count as no traffic.
  c10::intrusive_ptr<c10d::Work> begun(const at::Tensor& output, const at::Tensor& input, const Traffic& traffic) {
    issued_.push_back(record_.newest() + ", " + sizes_text(input, output));
    const double ends_at = input.is_meta() ? clock_.start(traffic) : 0;
    return c10::make_intrusive<PlannedWork>(clock_, ends_at, is_border(world_, axis_));
  }

  WorldShape world_;
  RankLine axis_;
  const FlightRecord& record_;
  StepClock& clock_;
  std::vector<std::string>& issued_;
};

std::string text_of(int rank, const std::vector<std::string>& issued, size_t number) {
  return "rank " + std::to_string(rank) + (number < issued.size() ? " in " + issued[number] : " calls no other one");
}

}  // namespace

Traffic all_to_all_traffic(const WorldShape& world, const RankLine& axis, int64_t bytes) {
  const double part = double(bytes) / double(axis.size);
  const int64_t on_host = ranks_on_host(world, axis);
  return {part * double(on_host - 1), part * double(axis.size - on_host)};
}

Traffic all_gather_traffic(const WorldShape& world, const RankLine& axis, int64_t bytes) {
  const int64_t on_host = ranks_on_host(world, axis);
  const int64_t entering = axis.size == on_host ? 0 : world.on_cuda ? axis.size - on_host : axis.size - 1;
  const double network = double(bytes) * double(entering) / double(on_host);
  return {double(bytes) * double(axis.size - 1) - network, network};
}

std::string first_disagreement(const std::map<int, IssuedCollectives>& ranks) {
  std::map<Communicator, std::pair<int, const std::vector<std::string>*>> first;  // rank of each communicator
  for (const auto& [rank, communicators] : ranks)
    for (const auto& [communicator, issued] : communicators) {
      const auto& [other, of_other] = first.try_emplace(communicator, rank, &issued).first->second;
      const auto [here, there] = std::ranges::mismatch(issued, *of_other);
      if (here == issued.end() && there == of_other->end()) continue;
      const auto number = size_t(here - issued.begin());
      return text_of(other, *of_other, number) + ", " + text_of(rank, issued, number);
    }
  return {};
}

MakeBackend PlannedWorld::planned(const WorldShape& shape, StepClock& clock) {
  return
      [this, shape, &clock](const c10::intrusive_ptr<c10d::Store>&, const RankLine& axis, std::chrono::milliseconds) {
        Communicator communicator{peers_.rank() - axis.rank * axis.stride, axis.stride, axis.size, 0};
        while (issued_.contains(communicator)) ++communicator.number;
        return c10::make_intrusive<PlannedBackend>(shape, axis, peers_.record(), clock, issued_[communicator]);
      };
}

PlannedWorld::PlannedWorld(const WorldShape& shape, int rank, StepClock& clock)
    : peers_(rank, int(shape.ranks)),
      channels_(peers_, planned(shape, clock), planned(shape, clock), std::chrono::milliseconds(0)) {}

}  // namespace wmtp
