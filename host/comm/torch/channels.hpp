// Channels: the communicators of a job. Gathers, reduces and control use separate connections, so that none waits
// behind another. Within a channel all ranks issue the same operations in the same order, which debug builds check
// (collective_checker.hpp). With one rank nothing is sent; every operation is a copy.
//
// A Mesh divides the ranks into shard groups: ranks that together hold one copy of the sharded state. Ranks at the same
// position of their shard groups form a replicate group and hold the same shard. With shard groups of two out of six
// ranks:
//
//   shard groups   0 1 | 2 3 | 4 5      replicate groups   0 2 4 | 1 3 5
//
// Independently of that, consecutive ranks may read the same sequences, a sequence group, and divide their positions
// (parallel.sequence) and the features inside of blocks (parallel.tensor). comm/rank_mesh.hpp says which ranks these
// are. Ranks of different sequence groups read different sequences.
//
// With pipeline parallelism all of this applies to a section: the ranks that have the same part of the model. Of W
// ranks in P sections, the last W/P have the first part and the first W/P, rank 0 among them, the last part, with the
// heads. Ranks of neighbouring sections at the same position pass hidden states and gradients over a border.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/rank_mesh.hpp"
#include "comm/torch/c10d_names.hpp"
#include "comm/torch/peers.hpp"

namespace wmtp {

class Channel;

/// An operation in flight. Wait on it exactly once; it keeps its tensors alive until then.
class Pending {
 public:
  Pending();
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  /// Blocks until completion. If a peer is lost or late, throws Peers::explain's Error.
  /// Adds to waited_seconds().
  void wait();
  explicit operator bool() const { return active_; }

 private:
  friend class Channel;
  bool active_ = false;
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor output_, input_;
  Channel* channel_ = nullptr;
  int64_t number_ = 0;  ///< in the flight record
};

class Channel {
 public:
  Channel(Peers& peers, c10::intrusive_ptr<c10d::Backend> backend);
  ~Channel();

  /// output [W*n] = every rank's input [n], in rank order; the input may be its own part of the output. `what` names
  /// the operation in errors.
  Pending all_gather(at::Tensor output, at::Tensor input, const std::string& what);
  /// `values` of rank `root`, on every rank. On the CPU only: the exchange through shared memory has no broadcast.
  Pending broadcast(at::Tensor values, int root, const std::string& what);
  /// Sends part r of input to rank r; output holds the received parts, in rank order. Equal sizes.
  Pending all_to_all(at::Tensor output, at::Tensor input, const std::string& what);

 private:
  friend class Pending;
  template <class Issue>
  Pending start(at::Tensor output, at::Tensor input, const std::string& what, const char* operation, Issue issue);
  void refuse_disagreement(const at::Tensor& output, const at::Tensor& input, const std::string& what,
                           const char* operation);
  Peers* peers_;
  c10::intrusive_ptr<c10d::Backend> backend_;  ///< null if there is one rank
  int64_t checked_ = 0;                        ///< collectives compared so far
};

/// A line of ranks and the channels between them.
struct RankGroup : RankAxis {
  Channel* gather_channel = nullptr;  ///< null in replicate groups, whose ranks hold the same shard
  Channel* reduce_channel = nullptr;  ///< null in groups that read the same sequences
};
struct Mesh {
  RankGroup shard, replicate;
};

/// Creates a communicator between the ranks of a line, which are two or more, for tensors on the run's device.
using MakeBackend = std::function<c10::intrusive_ptr<c10d::Backend>(
    const c10::intrusive_ptr<c10d::Store>& store, const RankAxis& line, std::chrono::milliseconds timeout)>;
/// Gloo over the network interface of this host with this address.
MakeBackend gloo(const std::string& address);

class Channels {
 public:
  /// Control is always on the CPU. `timeout` applies until set_timeout. [all ranks, collective]
  Channels(Peers& peers, const MakeBackend& control, const MakeBackend& device, std::chrono::milliseconds timeout);
  ~Channels();
  void set_timeout(std::chrono::milliseconds timeout);

  /// Divides all ranks into sections, of which there is one at the start. The first call with a number connects them.
  /// [on the channels of all ranks; all ranks, collective]
  void form_sections(int sections);
  /// The channels of the ranks with the same part of the model; these if there is one section.
  Channels& section_channels() { return section_ ? *section_ : *this; }
  const Channels& section_channels() const { return section_ ? *section_ : *this; }
  /// The channels of all ranks of the job.
  Channels& all() { return *all_; }
  int sections() const { return sections_; }
  /// 0 for the ranks with the first part of the model.
  int section_index() const { return sections_ - 1 - first_ / size_; }
  /// This rank and its counterpart in the previous section, and in the next; this rank alone where there is none.
  const RankGroup& previous_section() const { return previous_section_; }
  const RankGroup& next_section() const { return next_section_; }
  /// This rank and its counterpart at the other end of the model: in the last section, first, and in the first section.
  /// Each call connects them anew. [these two sections, collective]
  RankGroup twins();
  /// The ranks at this position of every section, the last section's first; `gather_channel` is on the CPU.
  const RankGroup& counterparts() const { return counterparts_; }

  Peers& peers() { return *peers_; }
  /// In the section; that of the job if there is one.
  int rank() const { return peers_->rank() - first_; }
  int size() const { return size_; }
  Channel& control() { return *control_; }
  /// Shard groups of `shard_group_size` ranks, which must divide size(), for whole parameters or for pieces of cut
  /// ones. The first call with these arguments connects them. [all ranks, collective]
  const Mesh& mesh(int shard_group_size, bool is_cut = false);
  /// Makes groups of `sequence_ranks * tensor_ranks` consecutive ranks, which must divide size(), read the same
  /// sequences; 1 at the start. The first call with these numbers connects them. [all ranks, collective]
  void share_sequences(int sequence_ranks, int tensor_ranks = 1);
  /// The ranks that read the same sequences: all `sequence_ranks * tensor_ranks`.
  const RankGroup& same_sequences_group() const { return same_sequences_group_; }
  /// Of these, the `sequence_ranks` with the same features of a block, which exchange heads for positions in attention.
  const RankGroup& attention_group() const { return attention_group_; }
  /// Of these, the `tensor_ranks` with the same positions, which divide a block's features.
  const RankGroup& tensor_group() const { return tensor_group_; }
  /// The number of this rank's group of the same sequences, and how many there are.
  int data_rank() const { return rank() / same_sequences_group_.size; }
  int data_ranks() const { return size() / same_sequences_group_.size; }

  /// Sum over ranks, bitwise identical on all of them. `values`: fp64, on the CPU or the run's device.
  at::Tensor sum(const at::Tensor& values, const std::string& what);
  /// [W, ...]: every rank's values, on the device of `values`. Does not block the host on a device.
  at::Tensor all_gather(const at::Tensor& values, const std::string& what);
  /// [data_ranks(), ...]: the values of the first rank of each group that reads the same sequences, of values that are
  /// equal within a group.
  at::Tensor gather_over_data_ranks(const at::Tensor& values, const std::string& what);

 private:
  /// The section of this rank.
  Channels(Channels& all, int sections);
  /// The communicator of this name between the ranks of a line, created by the first call. The name is unique to the
  /// line.
  Channel* connect(const std::string& name, const MakeBackend& make, const RankAxis& line);
  /// "2 ranks from 5, each 4 after the one before", unique to a line.
  std::string name_of(const RankAxis& line) const;

  Peers* peers_;
  Channels* all_;
  int first_, size_;  ///< these ranks of the job
  int sections_ = 1;
  MakeBackend make_control_, make_;
  std::chrono::milliseconds timeout_;
  std::vector<c10::intrusive_ptr<c10d::Backend>> backends_;
  std::map<std::string, std::unique_ptr<Channel>> channels_;  ///< by name
  RankGroup world_;
  Channel* control_;
  RankMesh ranks_;
  std::map<std::pair<int, int>, Mesh> meshes_;  ///< by the sizes of shard groups and of tensor groups
  RankGroup same_sequences_group_, attention_group_, tensor_group_;
  RankGroup previous_section_, next_section_, counterparts_;
  std::map<int, std::unique_ptr<Channels>> sections_by_number_;
  Channels* section_ = nullptr;  ///< null: one section
};

/// Seconds that this thread has spent blocked in collectives.
double waited_seconds();

}  // namespace wmtp
