#include "comm/torch/channels.hpp"

#include <ATen/record_function.h>

#include <system_error>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/system_limits.hpp"
#include "base/time_use.hpp"
#include "comm/torch/collective_checker.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "memory/allocator.hpp"
#include "memory/meta_device.hpp"

namespace wmtp {
namespace {

constexpr const char* waiting = "communication";

}  // namespace

double waited_seconds() { return time_used(waiting); }

Pending::Pending() = default;
Pending::~Pending() = default;
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;

void Pending::wait() {
  if (!active_) return;
  active_ = false;
  if (!work_) return;
  try {
    const TimeScope time(waiting);
    RECORD_USER_SCOPE("waiting for " + channel_->peers_->record().describe(number_));
    work_->wait();
  } catch (const std::exception& error) {
    throw channel_->peers_->explain(channel_->peers_->record().describe(number_), error.what());
  }
  channel_->peers_->record().end(number_, output_.is_cuda() ? cuda_backend().without_tensors(*work_) : nullptr);
  work_.reset();
  output_.reset();
  input_.reset();
}

Channel::Channel(Peers& peers, c10::intrusive_ptr<c10d::Backend> backend)
    : peers_(&peers), backend_(std::move(backend)) {}
Channel::~Channel() = default;

template <class Issue>
Pending Channel::start(at::Tensor output, at::Tensor input, const std::string& what, const char* operation,
                       Issue issue) {
  Pending pending;
  pending.active_ = true;
  if (!backend_) {
    output.copy_(input.view_as(output));
    return pending;
  }
  pending.channel_ = this;
  FlightRecord& record = peers_->record();
  pending.number_ = record.begin(what, operation, int64_t(output.nbytes()));
  const MemoryScope scope(MemoryCategory::communication);
  try {
    if (collectives_are_checked()) refuse_disagreement(output, input, what, operation);
    if (output.is_cuda()) record.mark(pending.number_, output.device());
    const TimeScope time(waiting);
    RECORD_USER_SCOPE(what);
    pending.work_ = issue(output, input);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw peers_->explain(record.describe(pending.number_), error.what());
  }
  pending.output_ = std::move(output);
  pending.input_ = std::move(input);
  return pending;
}

void Channel::refuse_disagreement(const at::Tensor& output, const at::Tensor& input, const std::string& what,
                                  const char* operation) {
  const std::string text = what + " (" + operation + " " + std::to_string(++checked_) + " of this channel, " +
                           sizes_text(input, output) + ")";
  const std::string difference = disagreement(*backend_, output.device(), {peers_->rank(), text});
  if (!difference.empty()) throw Error(ExitStatus::bug, "ranks disagree about their next collective: " + difference);
}

Pending Channel::all_gather(at::Tensor output, at::Tensor input, const std::string& what) {
  return start(std::move(output), std::move(input), what, "all-gather",
               [&](at::Tensor& out, at::Tensor& in) { return backend_->_allgather_base(out, in); });
}

Pending Channel::broadcast(at::Tensor values, int root, const std::string& what) {
  return start(values, values, what, "broadcast", [&](at::Tensor& out, at::Tensor&) {
    std::vector<at::Tensor> tensors{out};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return backend_->broadcast(tensors, options);
  });
}

Pending Channel::all_to_all(at::Tensor output, at::Tensor input, const std::string& what) {
  return start(std::move(output), std::move(input), what, "all-to-all", [&](at::Tensor& out, at::Tensor& in) {
    std::vector<int64_t> equal_parts;
    return backend_->alltoall_base(out, in, equal_parts, equal_parts);
  });
}

Channels::Channels(Peers& peers, const MakeBackend& control, const MakeBackend& device,
                   std::chrono::milliseconds timeout)
    : peers_(&peers),
      all_(this),
      first_(0),
      size_(peers.size()),
      make_control_(control),
      make_(device),
      timeout_(timeout),
      world_{{peers.rank(), peers.size()}},
      ranks_(peers.rank(), peers.size(), 1, 1) {
  world_.gather_channel = connect("gather", device, world_);
  world_.reduce_channel = connect("reduce", device, world_);
  control_ = connect("control", control, world_);
  share_sequences(1);
  peers.on_broken([this] {
    for (const auto& backend : backends_) backend->abort();
  });
}

Channels::Channels(Channels& all, int sections)
    : peers_(all.peers_),
      all_(&all),
      first_(all.rank() / (all.size() / sections) * (all.size() / sections)),
      size_(all.size() / sections),
      sections_(sections),
      make_control_(all.make_control_),
      make_(all.make_),
      timeout_(all.timeout_),
      world_{{rank(), size()}},
      ranks_(rank(), size(), 1, 1) {
  const std::string of_section = " in the section of " + name_of(world_);
  world_.gather_channel = connect("gather" + of_section, make_, world_);
  world_.reduce_channel = connect("reduce" + of_section, make_, world_);
  control_ = connect("control" + of_section, make_control_, world_);
  const auto border = [&](const RankAxis& line) -> RankGroup {
    return {line, connect("border of " + name_of(line), make_, line), nullptr};
  };
  // From the first border to the last: a rank in the middle meets its neighbours in this order, too.
  if (section_index() > 0) previous_section_ = border({0, 2, size_});
  if (section_index() < sections - 1) next_section_ = border({1, 2, size_});
  const RankAxis counterparts{all.rank() / size_, sections, size_};
  counterparts_ = {counterparts, connect("counterparts of " + name_of(counterparts), make_control_, counterparts),
                   nullptr};
  share_sequences(1);
}

void Channels::form_sections(int sections) {
  TORCH_CHECK(this == all_ && sections > 0 && size() % sections == 0, sections, " sections of ", size(), " ranks");
  section_ = nullptr;
  if (sections == 1) return;
  std::unique_ptr<Channels>& formed = sections_by_number_[sections];
  if (!formed) formed.reset(new Channels(*this, sections));
  section_ = formed.get();
}

RankGroup Channels::twins() {
  TORCH_CHECK(sections_ > 1 && (previous_section_.size == 1 || next_section_.size == 1),
              "a section in the middle has no twin");
  const RankAxis line{section_index() == 0 ? 1 : 0, 2, size_ * (sections_ - 1)};
  return {line, connect("twins of " + name_of(line), make_, line), nullptr};
}

Channels::~Channels() {
  if (this == all_) peers_->on_broken(nullptr);
}

Channel* Channels::connect(const std::string& name, const MakeBackend& make, const RankAxis& line) {
  if (this != all_) return all_->connect(name, make, line);
  std::unique_ptr<Channel>& channel = channels_[name];
  if (channel) return channel.get();
  c10::intrusive_ptr<c10d::Backend> backend;
  if (line.size > 1) {
    try {
      const auto store = c10::make_intrusive<c10d::PrefixStore>(name, peers_->store());
      backend = backends_.emplace_back(make(store, line, timeout_));
    } catch (const std::system_error&) {  // it cannot start a thread, which is no other rank's fault
      throw *caught_system_error();
    } catch (const std::exception& error) {
      throw peers_->explain("connecting the ranks (" + name + ")", error.what());
    }
  }
  channel = std::make_unique<Channel>(*peers_, backend);
  return channel.get();
}

std::string Channels::name_of(const RankAxis& line) const {
  return std::to_string(line.size) + " ranks from " + std::to_string(peers_->rank() - line.rank * line.stride) +
         ", each " + std::to_string(line.stride) + " after the one before";
}

const Mesh& Channels::mesh(int shard_group_size, bool is_cut) {
  const auto [found, is_new] = meshes_.try_emplace({shard_group_size, is_cut ? tensor_group_.size : 1});
  Mesh& mesh = found->second;
  if (!is_new) return mesh;
  TORCH_CHECK(shard_group_size > 0 && size() % shard_group_size == 0, "shard groups of ", shard_group_size, " of ",
              size(), " ranks");
  const auto group = [&](const RankAxis& line, const std::string& name, bool gathers) -> RankGroup {
    if (line.size == size()) return {line, gathers ? world_.gather_channel : nullptr, world_.reduce_channel};
    if (line.size == 1) return {line};
    const std::string of_group = name + " group of " + name_of(line);
    return {line, gathers ? connect("gather in " + of_group, make_, line) : nullptr,
            connect("reduce in " + of_group, make_, line)};
  };
  mesh.shard = group(ranks_.shard(shard_group_size, is_cut), "shard", true);
  mesh.replicate = group(ranks_.replicate(shard_group_size, is_cut), "replicate", false);
  return mesh;
}

void Channels::share_sequences(int sequence_ranks, int tensor_ranks) {
  const int ranks = sequence_ranks * tensor_ranks;
  TORCH_CHECK(ranks > 0 && size() % ranks == 0, "sequence groups of ", ranks, " of ", size(), " ranks");
  ranks_ = RankMesh(rank(), size(), sequence_ranks, tensor_ranks);
  const auto group = [&](const RankAxis& line) -> RankGroup {
    return {line, line.size > 1 ? connect("sequence group of " + name_of(line), make_, line) : nullptr, nullptr};
  };
  same_sequences_group_ = group(ranks_.same_sequences());
  attention_group_ = group(ranks_.attention());
  tensor_group_ = group(ranks_.tensor());
}

void Channels::set_timeout(std::chrono::milliseconds timeout) {
  timeout_ = timeout;
  for (const auto& backend : backends_) backend->setTimeout(timeout);
}

at::Tensor Channels::all_gather(const at::Tensor& values, const std::string& what) {
  if (size() == 1) return values.unsqueeze(0);
  std::vector<int64_t> shape = values.sizes().vec();
  shape.insert(shape.begin(), size());
  at::Tensor every = at::empty(shape, values.options());
  Channel* channel = on_cpu(values) ? control_ : world_.gather_channel;
  channel->all_gather(every.view({-1}), values.contiguous().view({-1}), what).wait();
  return every;
}

at::Tensor Channels::gather_over_data_ranks(const at::Tensor& values, const std::string& what) {
  if (data_ranks() == 1) return values.unsqueeze(0);
  return all_gather(values, what).slice(0, 0, size(), same_sequences_group_.size);
}

at::Tensor Channels::sum(const at::Tensor& values, const std::string& what) {
  return size() == 1 ? values : all_gather(values, what).sum(0);
}

}  // namespace wmtp
