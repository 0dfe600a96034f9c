// Gloo between hosts. Its own all-to-all and all-gather send before they receive: if the other rank waits already, the
// whole part is written in front of the message that lets that rank send, so that data crosses a link in one direction
// at a time. Here every rank asks for all that it will receive first. The gather also writes into its output, without
// the buffer that c10d copies from. See docs/decisions/0052-ranks-receive-before-they-send.md.
//
// All messages go through c10d: the layout of Gloo's own classes differs between its headers and those in LibTorch.
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/torch/channels.hpp"

namespace wmtp {
namespace {

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

/// Messages between ranks of one collective, which its tag separates from those of others. [any thread]
class Messages {
 public:
  Messages(c10d::ProcessGroupGloo& backend, std::shared_ptr<std::mutex> in_use, uint32_t tag)
      : backend_(&backend), in_use_(std::move(in_use)), tag_(int(tag & 0x7fffffff)) {}
  c10::intrusive_ptr<c10d::Work> receive(at::Tensor to, int from) const {
    const std::lock_guard lock(*in_use_);
    std::vector<at::Tensor> tensors{std::move(to)};
    return backend_->c10d::ProcessGroupGloo::recv(tensors, from, tag_);
  }
  c10::intrusive_ptr<c10d::Work> send(at::Tensor values, int to) const {
    const std::lock_guard lock(*in_use_);
    std::vector<at::Tensor> tensors{std::move(values)};
    return backend_->c10d::ProcessGroupGloo::send(tensors, to, tag_);
  }

 private:
  c10d::ProcessGroupGloo* backend_;
  std::shared_ptr<std::mutex> in_use_;  ///< c10d counts messages without a lock
  int tag_;
};

/// Messages that Gloo's own thread moves.
class MessageWork final : public c10d::Work {
 public:
  MessageWork(Works messages, std::chrono::milliseconds timeout) : messages_(std::move(messages)), timeout_(timeout) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    for (const auto& message : messages_) message->wait(timeout_);
    return true;
  }

 private:
  Works messages_;
  std::chrono::milliseconds timeout_;
};

/// Every rank passes on what it receives from the rank before it, in halves, on the worker thread of the backend.
class RingGather final : public c10d::ProcessGroupGloo::AsyncWork {
 public:
  RingGather(const std::shared_ptr<gloo::Context>& context, uint64_t sequence_number, std::chrono::milliseconds timeout,
             Messages messages, int rank, int ranks, const at::Tensor& output)
      : AsyncWork(context, {{output}}, c10d::OpType::_ALLGATHER_BASE, sequence_number, timeout),
        messages_(std::move(messages)),
        rank_(rank),
        ranks_(ranks),
        output_(output) {}

  const std::vector<at::Tensor> getInputTensors() override { return {}; }
  const std::vector<at::Tensor> getOutputTensors() override { return {output_}; }

  void run() override {
    const int before = (rank_ + ranks_ - 1) % ranks_, after = (rank_ + 1) % ranks_;
    Works received, sent;
    for (int step = 1; step < ranks_; ++step)
      for (const int half : {0, 1}) received.push_back(messages_.receive(piece(rank_ - step, half), before));
    for (const int half : {0, 1}) sent.push_back(messages_.send(piece(rank_, half), after));
    for (size_t i = 0; i < received.size(); ++i) {
      received[i]->wait(timeout_);
      const int step = int(i) / 2 + 1;
      if (step + 1 < ranks_) sent.push_back(messages_.send(piece(rank_ - step, int(i) % 2), after));
    }
    for (const auto& message : sent) message->wait(timeout_);
  }

 private:
  /// Half of a rank's part.
  at::Tensor piece(int rank, int half) const {
    const int64_t part = output_.numel() / ranks_, middle = part / 2;
    return output_.narrow(0, (rank + ranks_) % ranks_ * part + half * middle, half == 0 ? middle : part - middle);
  }

  Messages messages_;
  int rank_, ranks_;
  at::Tensor output_;
};

class Gloo final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  /// c10d's Gloo has no abort; closing the connections ends waits on them, on this rank and on the others.
  void abort() override {
    for (const auto& context : contexts_) context->closeConnections();
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& /*options*/) override {
    TORCH_CHECK(output.is_contiguous() && output.dim() == 1 && output.numel() == input.numel() * size_);
    part_of(output, rank_).copy_(input.view({-1}));
    const auto tag = nextTag();
    auto work = c10::make_intrusive<RingGather>(getContext(tag), tag, options_->timeout, Messages(*this, in_use_, tag),
                                                rank_, size_, output);
    enqueue(work);
    return work;
  }

  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                                               const c10d::AllToAllOptions& /*options*/) override {
    TORCH_CHECK(output_sizes.empty() && input_sizes.empty(), "parts of different sizes");
    TORCH_CHECK(output.is_contiguous() && input.is_contiguous() && output.nbytes() == input.nbytes());
    TORCH_CHECK(input.numel() % size_ == 0 && output.numel() % size_ == 0);
    const Messages messages(*this, in_use_, nextTag());
    Works works;
    for (int i = 1; i < size_; ++i) {
      const int source = (rank_ + size_ - i) % size_;
      works.push_back(messages.receive(part_of(output, source), source));
    }
    for (int i = 1; i < size_; ++i) {
      const int target = (rank_ + i) % size_;
      works.push_back(messages.send(part_of(input, target), target));
    }
    part_of(output, rank_).copy_(part_of(input, rank_));
    return c10::make_intrusive<MessageWork>(std::move(works), options_->timeout);
  }

 private:
  at::Tensor part_of(const at::Tensor& values, int rank) const {
    const int64_t part = values.numel() / size_;
    return values.view({-1}).narrow(0, rank * part, part);
  }

  std::shared_ptr<std::mutex> in_use_ = std::make_shared<std::mutex>();
};

}  // namespace

MakeBackend gloo(const std::string& address) {
  return
      [address](const c10::intrusive_ptr<c10d::Store>& store, const RankAxis& axis, std::chrono::milliseconds timeout) {
        auto options = c10d::ProcessGroupGloo::Options::create(timeout);
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
        options->threads = 1;
        return c10::make_intrusive<Gloo>(store, axis.rank, axis.size, options);
      };
}

}  // namespace wmtp
