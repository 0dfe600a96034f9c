// ParameterGroup: flat storage of parameters that are gathered, reduced and stepped together.
//
// Layout: parameters with weight decay first, then the others, within each by learning rate, so that those that are
// stepped alike lie together; each aligned to 64 elements, the whole padded to a multiple of 64 * shards. The master
// shard (fp32 when it trains, else the compute dtype) is one contiguous part of it.
//
//   strategy        master shard   gathered weights            gradient
//   no_shard        whole          the master (or a cast copy) summed over ranks in the whole buffer
//   shard_grad_op   1/W            kept for the whole step      reduced to this rank's shard
//   full_shard      1/W            from ready() to release()    reduced to this rank's shard
//   hybrid_shard    1/G            as full_shard, in a row      reduced in a row, and once a step over a column
//
// Where it is offloaded, the master shard of what trains lies in the host's memory, and so does the optimizer's state;
// a copy of it in the compute dtype, in pinned memory, goes to the device for each gather, and the gradient of a step
// comes to the host.
//
// A row is G neighbouring ranks, a column the W/G that hold the same shard (engine/comm/channels.hpp): all ranks are one row
// where everything is sharded, and one column where nothing is.
//
// Reduce: all-to-all, then an fp32 sum in rank order, so every rank gets the same bits and a result does not depend on
// timing. Gradients are SUMMED over ranks; the loss is already divided by a global count. Where they travel in bf16
// every rank's part is rounded once, and once more a sum that is spread over a column. [all ranks; the same calls in
// the same order: start_gather, start_reduce, finish_reduce and finish_column are collective]
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "engine/comm/channels.hpp"
#include "engine/model/layout.hpp"
#include "engine/model/weight_store.hpp"

namespace wmtp {

struct GroupOptions {
  Strategy strategy = Strategy::full_shard;
  at::ScalarType param_dtype = at::kFloat;  ///< in which weights are gathered and computed with
  at::Device device = at::kCPU;
  int shard_group_size = 0;                  ///< hybrid_shard: ranks in a row
  at::ScalarType reduce_dtype = at::kFloat;  ///< in which gradients are sent
  bool replicate_frozen = false;             ///< ShardUnit: frozen groups are not sharded, whatever the strategy
  bool offload = false;                      ///< master shards of what trains lie in the host's memory
};

/// Where a parameter lies in its group's flat storage, in elements.
struct Placed {
  ParameterSpec spec;
  int64_t offset = 0;
  int64_t count = 0;
};

/// A run of elements of a shard that are stepped alike.
struct Segment {
  int64_t begin = 0, end = 0;
  bool decays = false;
  double lr_scale = 1;
};

class ParameterGroup final : public WeightStore {
 public:
  /// All of `parameters` train, or none does.
  ParameterGroup(std::string name, std::vector<ParameterSpec> parameters, const GroupOptions& options,
                 Channels& channels);

  const std::string& name() const { return name_; }
  const std::vector<Placed>& parameters() const { return parameters_; }
  bool trains() const { return trains_; }

  // Gathered weights.
  void start_gather();  ///< no effect when gathered or under way
  void ready();         ///< gathers when nobody has started it; waits
  void release();       ///< full and hybrid: gives the gathered weights back; else keeps them until the master changes
  bool gathered() const { return weights_.defined(); }

  // WeightStore
  at::Tensor weight(int index) override;
  bool trains(int) const override { return trains_; }
  void add_product(int index, const at::Tensor& left, const at::Tensor& right) override;
  void add_gradient(int index, const at::Tensor& value) override;
  void add_rows(int index, const at::Tensor& rows, const at::Tensor& values) override;

  // Gradients of a micro-batch, zero where nothing was written; none when nothing trains. `last`: of the step; no_shard
  // reduces then only, and so do the columns of hybrid_shard: finish_reduce starts that, finish_column ends it.
  void start_reduce(bool last);
  void finish_reduce();
  void finish_column();
  /// This rank's part of the summed gradient (fp32, as long as the master shard, on the device); undefined before a
  /// reduce.
  const at::Tensor& gradient() const { return gradient_; }
  void drop_gradient();

  // The part of the flat storage whose master this rank holds.
  int64_t shard_begin() const { return shard_begin_; }
  int64_t shard_size() const { return shard_size_; }
  at::Tensor& master() { return master_; }
  /// What of this rank's shard is stepped alike, in order; together they are the shard.
  std::vector<Segment> segments() const;
  /// Whether this rank's shard counts in a sum over ranks: of a column, the first one's does.
  bool counts_in_norm() const { return mesh_.replicate.rank == 0; }
  /// To be called after the master changed: gathered copies are stale.
  void master_changed();

  /// Calls visit(placed, begin, part): elements [begin, begin + part.numel()) of the parameter lie in `part`, a view of
  /// `flat`, which is laid out like the master shard. For filling, saving and loading.
  template <class Visit>
  void for_each_part(const at::Tensor& flat, Visit visit) const {
    for (const Placed& placed : parameters_) {
      const int64_t begin = std::max(placed.offset, shard_begin_);
      const int64_t end = std::min(placed.offset + placed.count, shard_begin_ + shard_size_);
      if (begin < end) visit(placed, begin - placed.offset, flat.narrow(0, begin - shard_begin_, end - begin));
    }
  }

  /// [all ranks] The whole flat master, on every rank, fp32 or as stored; on the device where it is sharded. For release
  /// checkpoints and tests.
  at::Tensor gather_master();

 private:
  at::Tensor& gradient_buffer();
  at::Tensor gradient_of(int index, bool& first);
  void zero_what_was_not_written();
  void add_to_gradient(at::Tensor sum);
  void start_column();
  void sum_over_column(const at::Tensor& arrived, at::Tensor to);
  at::Tensor shard_on_device();
  bool shards() const { return mesh_.shard.size > 1; }
  bool is_alone() const { return mesh_.shard.size == 1 && mesh_.replicate.size == 1; }

  std::string name_;
  std::vector<Placed> parameters_;
  GroupOptions options_;
  const Mesh& mesh_;
  bool trains_ = false;
  int64_t total_ = 0, shard_begin_ = 0, shard_size_ = 0;

  at::Tensor master_;
  at::Tensor staged_;          ///< the master in the compute dtype, in the host's memory; while it is offloaded
  bool staged_holds_ = false;  ///< what the master is now
  at::Tensor weights_;         ///< flat, compute dtype; an alias of the master where possible
  at::Tensor gathering_;       ///< output of the gather under way
  Pending gather_;
  at::Tensor whole_gradient_;  ///< flat fp32, of this rank's micro-batch (no_shard: of the step so far)
  std::vector<bool> written_;  ///< per parameter: its part of whole_gradient_ holds something
  at::Tensor arriving_;        ///< every rank's part, of the reduce under way
  Pending reduce_;
  bool last_ = false;  ///< the reduce under way is the step's last
  at::Tensor gradient_;
  at::Tensor arriving_in_column_;
  Pending column_reduce_;
};

}  // namespace wmtp
