// ParameterGroup: flat storage of parameters that are gathered, reduced and updated together.
//
// Layout: parameters that Muon updates first, then those with weight decay, then the others, each sorted by their other
// settings (precedes); each is aligned to 64 elements, and the total is
// padded to a multiple of 64 * ranks. The master shard (fp32 if it trains, else the compute dtype) is a contiguous part
// of it.
//
//   strategy        master shard   gathered weights              gradient
//   no_shard        all            the master (or a cast copy)   summed over ranks in the whole buffer
//   shard_optimizer 1/W            kept for the whole step       kept whole, reduced to this rank's shard once per step
//   shard_grad_op   1/W            kept for the whole step       reduced to this rank's shard
//   full_shard      1/W            from finish_gather() to release()     reduced to this rank's shard
//   hybrid_shard    1/G            as full_shard, shard group    reduced in the shard group, and once per step over
//                                                                the replicate group
//
// With offloading, master shards and optimizer state are in host memory. Each gather transfers a copy in the compute
// dtype through pinned memory to the device; a step's gradient is copied to the host. Offloaded frozen weights are
// freed after each use, whatever the strategy.
//
// Masters of 16-bit weights may be in the optimizer's file (optimizer/torch/optimizer_state_file.hpp), of which they
// are visited in blocks. In memory, where the master would be, is then the copy in the compute dtype that gathers read.
//
// A shard group is G consecutive ranks of a section, a replicate group the W/G ranks that hold the same shard
// (comm/torch/channels.hpp). With full sharding all ranks form one shard group; without sharding, one replicate group.
// A group of pieces, into which tensor parallelism cuts parameters, is that of the W/T ranks which have the same pieces
// (comm/rank_mesh.hpp).
//
// Reduce: all-to-all, then an fp32 sum in rank order, so the result is bitwise the same on all ranks, independent of
// timing. Gradients are SUMMED over ranks; the loss is already divided by a global count. With reduce_dtype bf16 every
// rank's part is rounded once, and a sum over a replicate group once more. [all ranks, the same calls in the same
// order: start_gather, start_reduce and the finish_ functions are collective]
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/torch/channels.hpp"
#include "experiment/experiment.hpp"
#include "model/torch/parameter_layout.hpp"
#include "model/torch/rank_exchange.hpp"
#include "model/torch/weight_store.hpp"

namespace wmtp {

struct GroupOptions {
  Strategy strategy = Strategy::full_shard;
  at::ScalarType param_dtype = at::kFloat;  ///< dtype of gathered weights and of computation
  at::Device device = at::kCPU;
  int shard_group_size = 0;                  ///< hybrid_shard: ranks per shard group
  at::ScalarType reduce_dtype = at::kFloat;  ///< dtype of gradients in communication
  bool replicate_frozen = false;             ///< ShardUnit: frozen groups are not sharded, for any strategy
  CpuOffload offload = CpuOffload::none;     ///< which master shards are in host memory
  bool masters_in_file = false;              ///< those of 16-bit weights that train are in the optimizer's file
  bool is_second_twin = false;               ///< ParameterGroup: of such a unit (UnitSpec)
};

/// A parameter, or this rank's piece of it, and its position in its group's flat storage, in elements.
struct FlatParameter {
  ParameterSpec spec;  ///< with the shape of the whole
  ParameterPiece piece;
  int64_t offset = 0;
  int64_t count = 0;  ///< of the piece
};

/// Whether each of these ranks has a piece of the parameter, by tensor parallelism. One that has no equal pieces stays
/// whole: the embedding and the output layer, as a vocabulary may have any size.
bool is_cut(const ParameterSpec& spec, const Channels& channels);
/// The order of parameters in a group and in files: by settings, so that those with equal ones are adjacent, then as in
/// their unit.
bool precedes(const ParameterSpec& a, const ParameterSpec& b);

/// A range of a shard with uniform optimizer settings.
struct Segment {
  int64_t begin = 0, end = 0;
  bool orthogonalizes = false, decays = false;
  double lr_scale = 1;
  std::optional<double> weight_decay = {};
};

/// Of a ParameterSpec or a Segment.
template <class Settings>
double effective_weight_decay(const Settings& settings, const OptimizerConfig& config) {
  return settings.weight_decay.value_or(settings.decays ? config.weight_decay : 0.0);
}

/// Visits elements [end - block.numel(), end) of a master shard.
using VisitMaster = std::function<void(const at::Tensor& block, int64_t end)>;
/// Visits all blocks of a master shard in order; if `changes`, their values may be changed.
using VisitMasterInFile = std::function<void(bool changes, const VisitMaster& visit)>;

class ParameterGroup final : public WeightStore {
 public:
  /// `parameters` must all train or all be frozen, and all be cut by channels.tensor_group() or all be whole. Without
  /// tensor parallelism all are whole.
  ParameterGroup(std::string unit, std::vector<ParameterSpec> parameters, const GroupOptions& options,
                 Channels& channels);

  const std::string& name() const { return name_; }
  /// All trained groups of a unit have made the same number of steps.
  const std::string& unit() const { return unit_; }
  const std::vector<FlatParameter>& parameters() const { return parameters_; }
  bool trains() const { return trains_; }
  const at::Device& device() const { return options_.device; }
  bool is_in_host_memory() const { return is_offloaded_; }  ///< the master
  bool is_in_file() const { return is_in_file_; }           ///< the master

  // Gathered weights.
  void start_gather();   ///< no effect if gathered or in flight
  void finish_gather();  ///< starts a gather if none is in flight; waits for it
  void release();        ///< frees the gathered weights, unless the strategy keeps them until the master changes
  bool gathered() const { return weights_.defined(); }

  // WeightStore
  at::Tensor weight(int index) override;
  bool trains(int) const override { return trains_; }
  void add_product(int index, const at::Tensor& left, const at::Tensor& right) override;
  void add_gradient(int index, const at::Tensor& value) override;
  void add_rows(int index, const at::Tensor& rows, const at::Tensor& values) override;

  // Gradients of a micro-batch; zero if nothing was written; no effect in a frozen group. `last`: the step's last
  // micro-batch, the only one in which no_shard and shard_optimizer reduce, and hybrid_shard reduces over replicate
  // groups. A reduction exchanges the parts of a shard group, then those of a replicate group, then its sums; each
  // finish_ function waits for one of these collectives and starts the next, if there is one. After all three, the
  // gradient is complete.
  void start_reduce(bool last);
  void finish_reduce();
  void finish_replicate_reduce();
  void finish_replicate_gather();
  /// This rank's part of the summed gradient: fp32, the size of the master shard, on the device. Undefined before the
  /// first reduce.
  const at::Tensor& gradient() const { return gradient_; }
  /// Adds the complete gradients of this group and its twin in another section, in fp32: both get the same bits. No
  /// effect in a frozen group. [both, collective]
  void sum_over_twins(const RankExchange& twins);
  void drop_gradient();

  // This rank's shard of the flat storage.
  int64_t shard_begin() const { return shard_begin_; }
  int64_t shard_size() const { return shard_size_; }
  /// Not of a group whose master is in a file.
  const at::Tensor& master() const;
  void keep_master_in_file(VisitMasterInFile visit_file) { visit_file_ = std::move(visit_file); }
  /// Visits the master, which may be changed: one block if it is in memory.
  void change_master(const VisitMaster& visit);
  /// This rank's shard, split by optimizer settings, in order.
  std::vector<Segment> segments() const;
  /// Whether this rank has the first of the equal shards of its replicate group and of twins. Only this one counts in
  /// sums over all ranks and is saved.
  bool is_first_replica() const { return mesh_.replicate.rank == 0 && !options_.is_second_twin; }
  const Mesh& mesh() const { return mesh_; }
  int64_t tensor_rank() const { return tensor_.rank; }  ///< which piece of its parameters this rank has
  /// Must be called after the master changed: gathered copies are stale.
  void master_changed();
  /// The same for each block that a visit has changed, in order.
  void block_changed(const at::Tensor& block, int64_t end);

  /// Calls on_part(placed, begin, part) for each parameter in this rank's shard: `part` is the view of `flat`, laid out
  /// like the master shard or the end of it, that holds elements [begin, begin + part.numel()) of placed.piece.
  template <class OnPart>
  void for_each_part(const at::Tensor& flat, OnPart on_part) const {
    for_each_part(flat, shard_size_, on_part);
  }
  /// The same of a `flat` that is laid out like the end of elements [0, end) of this rank's shard.
  template <class OnPart>
  void for_each_part(const at::Tensor& flat, int64_t end_in_shard, OnPart on_part) const {
    for_each_range(end_in_shard - flat.numel(), end_in_shard,
                   [&](const FlatParameter& placed, int64_t begin, int64_t offset, int64_t count) {
                     on_part(placed, begin, flat.narrow(0, offset, count));
                   });
  }
  /// Calls on_range(placed, begin, offset, count) for each parameter in elements [first, end) of this rank's shard:
  /// elements [begin, begin + count) of placed.piece are there from first + offset on.
  template <class OnRange>
  void for_each_range(int64_t first, int64_t end_in_shard, OnRange on_range) const {
    const int64_t range_begin = shard_begin_ + first, range_end = shard_begin_ + end_in_shard;
    for (const FlatParameter& placed : parameters_) {
      const int64_t begin = std::max(placed.offset, range_begin);
      const int64_t end = std::min(placed.offset + placed.count, range_end);
      if (begin < end) on_range(placed, begin - placed.offset, begin - range_begin, end - begin);
    }
  }

  /// The whole flat master on every rank, in its dtype; on the device if sharded or in a file. [all ranks, collective]
  at::Tensor gather_master();
  /// The whole flat storage of values laid out like the master shard, on the device. [all ranks, collective]
  at::Tensor gather_shards(const at::Tensor& values);
  /// [pieces, total]: the flat storages of all ranks that have other pieces of the same parameters, one if they are
  /// whole. [all ranks, collective]
  at::Tensor gather_pieces(const at::Tensor& flat);
  /// A parameter of such storages, in the shape of the whole.
  static at::Tensor joined(const FlatParameter& placed, const at::Tensor& pieces);

 private:
  at::Tensor& gradient_buffer();
  at::Tensor gradient_view(int index, bool& first);
  void zero_unwritten();
  void add_to_gradient(at::Tensor sum);
  void start_replicate_reduce();
  void start_replicate_gather(const at::Tensor& arrived);
  void add_reduced(const at::Tensor& parts);
  at::Tensor shard_on_device();
  at::Tensor read_master() const;
  bool shards() const { return mesh_.shard.size > 1; }
  bool reduces_once_per_step() const { return !shards() || options_.strategy == Strategy::shard_optimizer; }
  bool is_alone() const { return mesh_.shard.size == 1 && mesh_.replicate.size == 1; }

  std::string unit_, name_;
  std::vector<FlatParameter> parameters_;
  GroupOptions options_;
  const RankGroup tensor_;  ///< the ranks that have the other pieces; this rank alone if the parameters are whole
  const Mesh& mesh_;
  bool trains_ = false, is_offloaded_ = false, is_in_file_ = false;
  int64_t total_ = 0, shard_begin_ = 0, shard_size_ = 0;

  at::Tensor master_;             ///< undefined: in a file
  VisitMasterInFile visit_file_;  ///< empty: not there yet
  at::Tensor staged_;             ///< the master in the compute dtype: with offloading in host memory, or beside a file
  bool staged_is_current_ = false;  ///< staged_ equals the master
  at::Tensor weights_;              ///< flat, compute dtype; an alias of the master where possible
  at::Tensor gathering_;            ///< output of the current gather
  Pending gather_;
  at::Tensor whole_gradient_;  ///< flat fp32, of this rank's micro-batch, or of its step so far
  std::vector<bool> written_;  ///< per parameter: whether its part of whole_gradient_ has been written
  at::Tensor reduce_output_;   ///< every rank's part, in the current reduce
  Pending reduce_;
  bool last_ = false;  ///< the current reduce is the step's last
  at::Tensor gradient_;
  at::Tensor replicate_reduce_output_;
  Pending replicate_reduce_;
  at::Tensor
      sums_;  ///< of all ranks of the replicate group, in the dtype of the reduction; the gradient where possible
  Pending replicate_gather_;
};

}  // namespace wmtp
