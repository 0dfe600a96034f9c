#include "plan/torch/planned_world.hpp"

#include <algorithm>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm/torch/collective_checker.hpp"

namespace wmtp {
namespace {

int64_t ranks_on_host(const WorldShape& world, const RankAxis& axis) {
  return std::clamp<int64_t>(world.ranks / world.hosts / axis.stride, 1, axis.size);
}

bool is_border(const WorldShape& world, const RankAxis& axis) {
  return world.sections > 1 && axis.size == 2 && axis.stride == world.ranks / world.sections;
}

class PlannedWork final : public c10d::Work {
 public:
  PlannedWork(StepTimeline& timeline, std::optional<size_t> collective, bool at_border)
      : timeline_(timeline), collective_(collective), at_border_(at_border) {}
  bool wait(std::chrono::milliseconds) override {
    if (collective_) timeline_.wait_for(*collective_, at_border_);
    return true;
  }

 private:
  StepTimeline& timeline_;
  std::optional<size_t> collective_;  ///< nullopt: takes no time
  bool at_border_;
};

/// Acts as if every rank had sent the values that this one sends on the host.
class PlannedBackend final : public c10d::Backend {
 public:
  /// Adds its collectives to `issued`.
  PlannedBackend(const WorldShape& world, const RankAxis& axis, const FlightRecord& record, StepTimeline& timeline,
                 std::vector<std::string>& issued)
      : Backend(axis.rank, axis.size),
        world_(world),
        axis_(axis),
        record_(record),
        timeline_(timeline),
        issued_(issued) {}
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
    std::optional<size_t> collective;
    if (input.is_meta()) collective = timeline_.start(traffic);
    return c10::make_intrusive<PlannedWork>(timeline_, collective, is_border(world_, axis_));
  }

  WorldShape world_;
  RankAxis axis_;
  const FlightRecord& record_;
  StepTimeline& timeline_;
  std::vector<std::string>& issued_;
};

std::string text_of(int rank, const std::vector<std::string>& issued, size_t number) {
  return "rank " + std::to_string(rank) + (number < issued.size() ? " in " + issued[number] : " calls no other one");
}

}  // namespace

void StepTimeline::compute(double operations) {
  counted_.operations += operations;
  events_.push_back({Kind::compute, operations});
}

size_t StepTimeline::start(const Traffic& traffic) {
  counted_.traffic += traffic;
  events_.push_back({Kind::start, 0, collectives_.size()});
  collectives_.push_back(traffic);
  return first_ + collectives_.size() - 1;
}

void StepTimeline::wait_for(size_t collective, bool at_border) {
  if (collective >= first_) events_.push_back({at_border ? Kind::wait_at_border : Kind::wait, 0, collective - first_});
}

void StepTimeline::restart() {
  counted_ = {};
  events_.clear();
  first_ += collectives_.size();
  collectives_.clear();
}

void StepTimeline::time(RankWork& work, const Rates& rates) const {
  double now = 0, at_borders = 0, bus_free_at = 0, network_free_at = 0;  // seconds since the step began
  std::vector<double> ends(collectives_.size());
  const auto end_on = [&](double& free_at, double bytes, double rate) {
    return bytes > 0 && rate > 0 ? free_at = std::max(free_at, now) + bytes / rate : 0;
  };
  for (const Event& event : events_) {
    if (event.kind == Kind::compute) {
      now += event.operations / rates.operations;
    } else if (event.kind == Kind::start) {
      const Traffic& traffic = collectives_[event.collective];
      const double of_byte = rates.exchange_seconds + (traffic.network > 0 ? rates.socket_seconds : 0);
      now += (traffic.bus + traffic.network) * of_byte;
      ends[event.collective] = std::max(end_on(bus_free_at, traffic.bus, rates.bus),
                                        end_on(network_free_at, traffic.network, rates.network));
    } else {
      const double until = std::max(now, ends[event.collective]);
      if (event.kind == Kind::wait_at_border) at_borders += until - now;
      now = until;
    }
  }
  work.seconds = now;
  work.at_borders = at_borders;
}

Traffic all_to_all_traffic(const WorldShape& world, const RankAxis& axis, int64_t bytes) {
  const double part = double(bytes) / double(axis.size);
  const int64_t on_host = ranks_on_host(world, axis);
  return {part * double(on_host - 1), part * double(axis.size - on_host)};
}

Traffic all_gather_traffic(const WorldShape& world, const RankAxis& axis, int64_t bytes) {
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

MakeBackend PlannedWorld::planned(const WorldShape& shape, StepTimeline& timeline) {
  return [this, shape, &timeline](const c10::intrusive_ptr<c10d::Store>&, const RankAxis& axis,
                                  std::chrono::milliseconds) {
    Communicator communicator{peers_.rank() - axis.rank * axis.stride, axis.stride, axis.size, 0};
    while (issued_.contains(communicator)) ++communicator.number;
    return c10::make_intrusive<PlannedBackend>(shape, axis, peers_.record(), timeline, issued_[communicator]);
  };
}

PlannedWorld::PlannedWorld(const WorldShape& shape, int rank, StepTimeline& timeline)
    : peers_(rank, int(shape.ranks)),
      channels_(peers_, planned(shape, timeline), planned(shape, timeline), std::chrono::milliseconds(0)) {}

}  // namespace wmtp
