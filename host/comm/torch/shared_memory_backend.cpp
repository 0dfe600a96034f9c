#include "comm/torch/shared_memory_backend.hpp"

#include <algorithm>
#include <deque>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/torch/shared_rings.hpp"
#include "comm/torch/store_text.hpp"

namespace wmtp {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int64_t total_ring_bytes = 8 << 20, min_ring_bytes = 1 << 19;
constexpr std::chrono::microseconds spin_time{50};
constexpr milliseconds poll_interval{20};  // for detecting ended ranks

/// An operation on one rank: its sent byte stream, and its part of the received streams.
struct Exchange {
  at::Tensor output, input;
  bool to_all;                  ///< each rank receives the whole input; else its part
  int64_t part;                 ///< bytes from each rank to each other rank
  int64_t sent = 0;             ///< bytes of this rank's stream
  std::vector<int64_t> passed;  ///< bytes read or skipped in each rank's stream
  bool done = false;

  /// Bytes in each rank's stream, which excludes the part for the rank itself.
  int64_t length(int ranks) const { return to_all ? part : part * (ranks - 1); }
};

class SharedMemoryBackend;

class ExchangeWork final : public c10d::Work {
 public:
  ExchangeWork(SharedMemoryBackend& backend, std::shared_ptr<Exchange> exchange)
      : backend_(backend), exchange_(std::move(exchange)) {}
  bool isCompleted() override { return exchange_->done; }
  bool wait(milliseconds timeout) override;

 private:
  SharedMemoryBackend& backend_;
  std::shared_ptr<Exchange> exchange_;
};

class SharedMemoryBackend final : public c10d::Backend {
 public:
  SharedMemoryBackend(SharedRings rings, milliseconds timeout)
      : Backend(rings.index(), rings.size()), rings_(std::move(rings)), timeout_(timeout) {}

  const std::string getBackendName() const override { return "memory"; }
  void setTimeout(milliseconds timeout) override { timeout_ = timeout; }
  void abort() override { rings_.hang_up(); }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& /*options*/) override {
    return begin(output, input, /*to_all=*/true, int64_t(input.nbytes()));
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                                               const c10d::AllToAllOptions& /*options*/) override {
    TORCH_CHECK(output_sizes.empty() && input_sizes.empty(), "parts of different sizes");
    return begin(output, input, /*to_all=*/false, int64_t(input.nbytes()) / size_);
  }

  void finish(const Exchange& exchange) {
    const auto end = Clock::now() + timeout_;
    while (!exchange.done) {
      const uint32_t seen = rings_.changes();
      if (move_bytes()) continue;
      if (rings_.is_hung_up()) throw std::runtime_error("a rank disconnected");
      if (Clock::now() > end) throw std::runtime_error("no data for " + std::to_string(timeout_.count()) + " ms");
      await_change(seen);
      if (seen == rings_.changes()) throw_if_peer_ended(exchange);
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> begin(const at::Tensor& output, const at::Tensor& input, bool to_all, int64_t part) {
    TORCH_CHECK(output.is_contiguous() && input.is_contiguous() && int64_t(output.nbytes()) == part * size_);
    auto exchange =
        std::make_shared<Exchange>(Exchange{output, input, to_all, part, 0, std::vector<int64_t>(size_t(size_), 0)});
    const auto* own = static_cast<const char*>(input.const_data_ptr()) + (to_all ? 0 : rank_ * part);
    char* const own_output = static_cast<char*>(output.mutable_data_ptr()) + rank_ * part;
    if (own_output != own) std::memcpy(own_output, own, size_t(part));
    exchange->passed[size_t(rank_)] = exchange->length(size_);
    queue_.push_back(exchange);
    move_bytes();
    return c10::make_intrusive<ExchangeWork>(*this, std::move(exchange));
  }

  /// Sends and receives for all operations in flight, in order, without waiting. False if nothing moved.
  bool move_bytes() {
    bool moved = send();
    for (int source = 0; source < size_; ++source) moved = receive(source) || moved;
    while (!queue_.empty() && is_done(*queue_.front())) {
      queue_.front()->done = true;
      queue_.pop_front();
    }
    return moved;
  }

  bool send() {
    bool moved = false;
    for (const auto& exchange : queue_) {
      const int64_t length = exchange->length(size_), before_own = rank_ * exchange->part;
      const char* input = static_cast<const char*>(exchange->input.const_data_ptr());
      while (exchange->sent < length) {
        const bool skips_own = !exchange->to_all && exchange->sent >= before_own;
        const int64_t run = (exchange->to_all || skips_own ? length : before_own) - exchange->sent;
        const int64_t put = rings_.put(input + exchange->sent + (skips_own ? exchange->part : 0), run);
        if (put == 0) return moved;
        exchange->sent += put;
        moved = true;
      }
    }
    return moved;
  }

  bool receive(int source) {
    bool moved = false;
    for (const auto& exchange : queue_) {
      const int64_t length = exchange->length(size_), part = exchange->part;
      // The start of this rank's part in the source's stream, which has no part for the source itself.
      const int64_t begin = exchange->to_all ? 0 : (rank_ < source ? rank_ : rank_ - 1) * part;
      char* output = static_cast<char*>(exchange->output.mutable_data_ptr()) + source * part;
      int64_t& passed = exchange->passed[size_t(source)];
      while (passed < length) {
        const bool is_mine = passed >= begin && passed < begin + part;
        const int64_t run = (passed < begin ? begin : is_mine ? begin + part : length) - passed;
        const int64_t taken = rings_.take(source, is_mine ? output + passed - begin : nullptr, run);
        if (taken == 0) return moved;
        passed += taken;
        moved = true;
      }
    }
    return moved;
  }

  bool is_done(const Exchange& exchange) const {
    const int64_t length = exchange.length(size_);
    return exchange.sent == length &&
           std::all_of(exchange.passed.begin(), exchange.passed.end(), [&](int64_t p) { return p == length; });
  }

  void await_change(uint32_t seen) {
    const auto end = Clock::now() + spin_time;
    while (rings_.changes() == seen)
      if (Clock::now() > end) return rings_.sleep(seen, poll_interval);
  }

  /// A rank that ended after completing its part is not lost.
  void throw_if_peer_ended(const Exchange& exchange) {
    for (int other = 0; other < size_; ++other) {
      const bool is_needed = exchange.passed[size_t(other)] < exchange.length(size_) ||
                             (exchange.sent < exchange.length(size_) && other != rank_ && rings_.unread_by(other) > 0);
      if (is_needed && rings_.has_ended(other) && !move_bytes())
        throw std::runtime_error("rank " + std::to_string(other) + " of this communicator exited");
    }
  }

  SharedRings rings_;
  milliseconds timeout_;
  std::deque<std::shared_ptr<Exchange>> queue_;  ///< in flight, oldest first
};

bool ExchangeWork::wait(milliseconds /*timeout*/) {
  backend_.finish(*exchange_);
  return true;
}

/// Whether `mine` is true on every rank.
bool is_true_on_all_ranks(c10d::Store& store, const std::string& key, int rank, int size, bool mine) {
  store.set(key + "/" + std::to_string(rank), text_to_bytes(mine ? "yes" : "no"));
  bool all = true;
  for (int other = 0; other < size; ++other)
    all = bytes_to_text(store.get(key + "/" + std::to_string(other))) == "yes" && all;
  return all;
}

/// Returns rings on all ranks or on none.
std::optional<SharedRings> rings_of(c10d::Store& store, int rank, int size) {
  std::optional<SharedRings> rings = rank == 0
                                         ? SharedRings::create(size, std::max(total_ring_bytes / size, min_ring_bytes))
                                         : SharedRings::attach(bytes_to_text(store.get("rings")), rank);
  if (rank == 0) store.set("rings", text_to_bytes(rings ? rings->address() : "none"));
  if (!is_true_on_all_ranks(store, "attached", rank, size, rings.has_value())) return {};
  if (!is_true_on_all_ranks(store, "watched", rank, size, rings->watch_others())) return {};
  return rings;
}

}  // namespace

MakeBackend shared_memory_or(MakeBackend otherwise) {
  return [otherwise = std::move(otherwise)](const c10::intrusive_ptr<c10d::Store>& store, const RankAxis& axis,
                                            milliseconds timeout) -> c10::intrusive_ptr<c10d::Backend> {
    if (auto rings = rings_of(*store, axis.rank, axis.size))
      return c10::make_intrusive<SharedMemoryBackend>(std::move(*rings), timeout);
    return otherwise(store, axis, timeout);
  };
}

}  // namespace wmtp
