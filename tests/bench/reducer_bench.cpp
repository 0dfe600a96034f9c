// no_shard's reduce compared with c10d::Reducer, which PyTorch's DistributedDataParallel uses, in alternating steps on
// one model: the same blocks and loss in fp32; only the storage and exchange of gradients and the update of parameters
// differ. Every rank runs this program (reducer_bench.py starts them); rank 0 prints a line for each step of either
// side.
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "comm/torch/shared_memory_backend.hpp"
#include "memory/allocator.hpp"
#include "model/reductions.hpp"
#include "model/torch/linear_cross_entropy.hpp"
#include "model/torch/matrix_product.hpp"
#include "model/torch/ops.hpp"
#include "optimizer/torch/sharded_optimizer.hpp"
#include "shard/sharded_model.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

constexpr int64_t batch = 2, positions = 256;
constexpr double lr = 1e-3;

class Everything : public Adapter {
 public:
  bool trains(const std::string& /*parameter*/) const override { return true; }
};

ModelConfig small() {
  ModelConfig model;
  model.dim = 256;
  model.layers = 8;
  model.heads = model.kv_heads = 8;
  model.ffn_dim = 704;
  model.vocab_size = 8192;
  return model;
}

/// One side: storage of the parameters, and handling of a unit's gradients.
class Side {
 public:
  virtual ~Side() = default;
  virtual WeightHandle weight(const std::string& parameter) = 0;
  virtual void begin() = 0;
  /// Called when all gradients of the unit are written.
  virtual void reduce(const std::string& unit) = 0;
  /// Waits for all reduces and steps.
  virtual void finish() = 0;
};

class Host final : public Side {
 public:
  Host(const ShardedModelRequest& request, Channels& channels)
      : model_(request, channels), optimizer_({}, model_.trained_groups()) {
    model_.initialize(1);
  }
  WeightHandle weight(const std::string& parameter) override { return model_.weight(parameter); }
  const ShardedModel& model() const { return model_; }
  void begin() override {
    for (const auto& unit : model_.units()) unit->finish_gather();
  }
  void reduce(const std::string& unit) override { reductions_.start(model_.unit(unit), /*last=*/true); }
  void finish() override {
    reductions_.finish();
    optimizer_.step(lr, 1.0);
  }

 private:
  ShardedModel model_;
  ShardedOptimizer optimizer_;
  Reductions<ShardUnit> reductions_;
};

/// Parameters as leaves of autograd, whose gradients a Reducer sums in buckets of 25 MB as they arrive.
class Plain final : public Side, public WeightStore {
 public:
  Plain(const std::vector<UnitSpec>& units, const ShardedModel& values, c10::intrusive_ptr<c10d::ProcessGroup> group) {
    for (const UnitSpec& unit : units)
      for (const ParameterSpec& spec : unit.parameters) {
        units_[unit.name].push_back(leaves_.size());
        index_[spec.name] = int(leaves_.size());
        leaves_.push_back(values.weight(spec.name).weight().clone().requires_grad_(true));
        first_.push_back(at::zeros_like(leaves_.back()).detach());
        second_.push_back(at::zeros_like(leaves_.back()).detach());
        steps_.push_back(at::zeros({}));
      }
    gradients_.resize(leaves_.size());
    // As in DistributedDataParallel: in the expected order of gradients, with a first bucket of 1 MB.
    std::vector<Tensor> backwards(leaves_.rbegin(), leaves_.rend());
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(backwards, {1 << 20, 25 << 20}));
    for (auto& bucket : buckets)
      for (size_t& index : bucket) index = leaves_.size() - 1 - index;
    reducer_ = std::make_unique<c10d::Reducer>(
        leaves_, buckets, std::move(group), std::vector<bool>(leaves_.size(), false), 25 << 20,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true, std::unordered_map<size_t, std::string>{},
        1 << 20, /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
  }
  WeightHandle weight(const std::string& parameter) override { return {this, index_.at(parameter)}; }
  void begin() override {
    reducer_->prepare_for_forward();
    for (Tensor& leaf : leaves_)
      if (leaf.grad().defined()) leaf.mutable_grad().zero_();
    reducer_->rebuild_buckets();
    reducer_->prepare_for_backward({});
  }
  void reduce(const std::string& unit) override {
    std::vector<Tensor> leaves, gradients;
    for (const size_t index : units_.at(unit)) {
      leaves.push_back(leaves_[index]);
      gradients.push_back(std::move(gradients_[index]));
      gradients_[index] = Tensor();
    }
    torch::autograd::backward(leaves, gradients);  // the last of a step waits for all buckets
  }
  void finish() override {
    std::vector<Tensor> values, gradients;
    for (const Tensor& leaf : leaves_) {
      values.push_back(leaf.detach());
      gradients.push_back(leaf.grad());
    }
    for (Tensor& steps : steps_) steps += 1;
    at::_fused_adamw_(values, gradients, first_, second_, {}, steps_, lr, 0.9, 0.95, 0.1, 1e-8, false, false);
  }

  // WeightStore
  Tensor weight(int index) override { return leaves_[size_t(index)].detach(); }
  bool trains(int /*index*/) const override { return true; }
  void add_product(int index, const Tensor& left, const Tensor& right) override {
    Tensor& gradient = gradients_[size_t(index)];
    if (gradient.defined())
      product_into(gradient, left.t(), right, /*add=*/true);
    else
      gradient = product(left.t(), right);
  }
  void add_gradient(int index, const Tensor& value) override {
    Tensor& gradient = gradients_[size_t(index)];
    gradient = gradient.defined() ? gradient + value : value;
  }
  void add_rows(int index, const Tensor& rows, const Tensor& values) override {
    gradients_[size_t(index)] = at::zeros_like(leaves_[size_t(index)]).detach().index_add_(0, rows, values);
  }

 private:
  std::vector<Tensor> leaves_, gradients_, first_, second_, steps_;
  std::map<std::string, std::vector<size_t>> units_;
  std::map<std::string, int> index_;
  std::unique_ptr<c10d::Reducer> reducer_;
};

/// The multi-token model with the weights of either side.
class Model {
 public:
  Model(const ModelConfig& config, Side& side)
      : config_(config), side_(side), output_(side.weight("output.weight"), int64_t{1} << 10) {
    const FindWeight find = [&side](const std::string& name) { return side.weight(name); };
    for (int64_t i = 0; i < config.layers; ++i) blocks_.emplace_back(config, name_of(i), find, nullptr);
    rotary_ = rotary_table(positions, config.dim / config.heads, config.rope_theta, at::kCPU);
  }

  /// Computes the loss.
  double step(const Tensor& tokens) {
    side_.begin();
    const WeightHandle embedding = side_.weight("tok_embeddings.weight"), norm = side_.weight("norm.weight");
    ForwardContext context;
    context.training = true;
    Tensor h = embedding.weight().index_select(0, tokens.flatten()).view({batch, positions, -1});
    std::vector<std::pair<Tensor, Tensor>> kept;
    const int64_t trunk = config_.layers - config_.future_tokens;
    for (int64_t i = 0; i < trunk; ++i) h = run(i, h, context, kept).detach();
    Tensor d = at::zeros_like(h);
    double loss = 0;
    for (int64_t head = 1; head <= config_.future_tokens; ++head) {
      const int64_t count = positions - head;
      std::vector<std::pair<Tensor, Tensor>> of_head;
      Tensor hidden;
      {
        const Tensor mixed = run(trunk + head - 1, h, context, of_head);
        const at::AutoGradMode grad(true);
        hidden = rms_norm(mixed, norm, config_.norm_eps);
      }
      const Tensor rows = hidden.detach().narrow(1, 0, count).reshape({batch * count, -1});
      const auto result =
          output_.one_pass(rows, tokens.narrow(1, head, count).reshape({-1}),
                           [&](const Scores& scores, int64_t) {
                             return at::full_like(scores.losses, 1.0 / double(batch * count * config_.future_tokens));
                           },
                           /*sparse=*/false, {});
      loss += result.scores.losses.mean().item<double>() / double(config_.future_tokens);
      Tensor d_hidden = at::zeros_like(hidden).detach();
      d_hidden.narrow(1, 0, count).copy_(result.d_hidden.view({batch, count, -1}));
      d += torch::autograd::grad({hidden}, {of_head[0].first}, {d_hidden})[0];
      side_.reduce(name_of(trunk + head - 1));
    }
    side_.reduce("output");
    side_.reduce("norm");
    for (int64_t i = trunk - 1; i >= 0; --i) {
      d = torch::autograd::grad({kept.back().second}, {kept.back().first}, {d})[0];
      kept.pop_back();
      side_.reduce(name_of(i));
    }
    embedding.store->add_rows(embedding.index, tokens.flatten(), d.flatten(0, 1));
    side_.reduce("tok_embeddings");
    side_.finish();
    return loss;
  }

 private:
  std::string name_of(int64_t block) const {
    const int64_t first_head = config_.layers - config_.future_tokens;
    return block < first_head ? trunk_block_name(block) : head_block_name(config_, block - first_head + 1);
  }
  Tensor run(int64_t block, const Tensor& x, const ForwardContext& context,
             std::vector<std::pair<Tensor, Tensor>>& kept) const {
    const at::AutoGradMode grad(true);
    const Tensor input = x.detach().requires_grad_(true);
    const Tensor output = blocks_[size_t(block)].forward(input, rotary_, context);
    kept.emplace_back(input, output);
    return output;
  }
  ModelConfig config_;
  Side& side_;
  LinearCrossEntropy output_;
  std::vector<Block> blocks_;
  Tensor rotary_;
};

int run(bool through_sockets, int64_t steps) {
  const at::AutoGradMode no_grad(false);
  install_allocator();
  at::set_num_threads(1);
  const RankEnvironment environment = rank_environment().value();
  Peers peers(environment, std::chrono::seconds(60));
  const MakeBackend sockets = gloo(environment.master_addr);
  Channels channels(peers, sockets, through_sockets ? sockets : shared_memory_or(sockets), std::chrono::seconds(60));

  const ModelConfig config = small();
  const Everything everything;
  ShardedModelRequest request;
  request.spec.model = &config;
  request.spec.adapter = &everything;
  request.options.strategy = Strategy::no_shard;
  request.sequence_length = positions;
  Host host(request, channels);
  host.begin();

  const auto store = c10::make_intrusive<c10d::PrefixStore>("plain", peers.store());
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, peers.rank(), peers.size());
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO,
                    sockets(store, {peers.rank(), peers.size()}, std::chrono::seconds(60)));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  Plain plain(model_units(request.spec), host.model(), group);

  Model with_host(config, host), with_plain(config, plain);
  at::manual_seed(1 + uint64_t(peers.rank()));
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor tokens = at::randint(config.vocab_size, {batch, positions}, at::kLong);
    for (const bool is_host : {step % 2 == 0, step % 2 != 0}) {
      channels.sum(at::zeros({1}, at::kDouble), "both begin together");
      const auto begun = Clock::now();
      const double loss = (is_host ? with_host : with_plain).step(tokens);
      const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
      const Tensor mean = channels.sum(at::full({1}, loss, at::kDouble), "the loss") / double(channels.size());
      if (peers.rank() == 0)
        std::printf("%ld %s %.6f %.9f\n", step, is_host ? "host" : "plain", seconds, mean.item<double>());
    }
  }
  peers.gather("the end", "here");
  return 0;
}

}  // namespace
}  // namespace wmtp

int main(int count, char** words) {
  if (count != 3) return std::fprintf(stderr, "usage: reducer_bench memory|sockets STEPS\n"), 2;
  return wmtp::run(std::strcmp(words[1], "sockets") == 0, std::atol(words[2]));
}
