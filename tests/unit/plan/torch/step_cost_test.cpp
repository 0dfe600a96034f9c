#include "plan/step_cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/alignment.hpp"
#include "plan/torch/planned.hpp"
#include "plan/torch/planned_world.hpp"

namespace wmtp {
namespace {

using test::planned;
using test::planner_of;
using test::TestPlan;

/// Traffic of all ranks of a world.
struct World {
  WorldShape shape;
  RankAxis axis{0, int(shape.ranks)};
  Traffic all_to_all(int64_t bytes) const { return all_to_all_traffic(shape, axis, bytes); }
  Traffic all_gather(int64_t bytes) const { return all_gather_traffic(shape, axis, bytes); }
};

TEST(Traffic, CountsBytesByLink) {
  const World host{{8, 1, true}}, hosts{{4, 4, true}}, both{{32, 4, true}};
  EXPECT_EQ(host.all_to_all(800).bus, 700);
  EXPECT_EQ(host.all_gather(100).bus, 700);
  EXPECT_EQ(host.all_to_all(800).network + host.all_gather(100).network, 0);
  EXPECT_EQ(hosts.all_to_all(400).network, 300);
  EXPECT_EQ(hosts.all_gather(100).network, 300);
  EXPECT_EQ(hosts.all_to_all(400).bus + hosts.all_gather(100).bus, 0);
  EXPECT_EQ(both.all_to_all(3200).network, 2400);
  EXPECT_EQ(both.all_to_all(3200).bus, 700);
  EXPECT_EQ(both.all_gather(100).network, 300) << "2,400 bytes enter a host once, over eight network cards";
  EXPECT_EQ(both.all_gather(100).bus, 2800);
}

TEST(Traffic, OnTheCpuTheRingOfAllRanksEntersEachHostOnce) {
  const World host{{8, 1, false}}, hosts{{4, 4, false}}, both{{4, 2, false}};
  EXPECT_EQ(host.all_gather(100).network, 0);
  EXPECT_EQ(hosts.all_gather(100).network, 300);
  EXPECT_EQ(both.all_gather(100).network, 150) << "300 bytes enter a host of two ranks";
  EXPECT_EQ(both.all_gather(100).bus, 150);
}

TEST(Traffic, OfAnAxisWhoseRanksAreFarApartIsThatBetweenHosts) {
  const WorldShape world{16, 2, true};
  EXPECT_EQ(all_to_all_traffic(world, RankAxis{0, 2, 8}, 200).network, 100) << "one rank on each host";
  EXPECT_EQ(all_to_all_traffic(world, RankAxis{0, 8, 2}, 800).bus, 300) << "four of the eight ranks on each host";
}

struct Variant : PlannedVariant {
  TestPlan plan;
};

Variant variant(TestPlan plan, Strategy strategy, int64_t hosts, int64_t ranks_per_host) {
  plan.strategy = strategy;
  plan.shard_group_size = ranks_per_host;
  plan.ranks = hosts * ranks_per_host;
  plan.hosts = hosts;
  return {{"full", strategy, false, plan, planned(plan)}, plan};
}

StepTime time_of(const Variant& one, const Rates& rates, double peak) {
  return step_time(planner_of(one.plan), one.request, rates, peak);
}

/// In fp32, padded for `ranks`, of the units whose names begin like that.
double bytes_of(const TestPlan& plan, int64_t ranks, const std::string& name = "") {
  const test::Everything everything;
  ModelSpec spec;
  spec.model = &plan.experiment.model;
  spec.adapter = &everything;
  int64_t elements = 0;
  for (const UnitSpec& unit : model_units(spec)) {
    if (!unit.name.starts_with(name)) continue;
    int64_t of_unit = 0;
    for (const ParameterSpec& parameter : unit.parameters) of_unit += round_up(parameter.count(), alignment);
    elements += round_up(of_unit, alignment * ranks);
  }
  return 4 * double(elements);
}

TEST(RankWork, NoShardingSendsAndGathersEachGradientOncePerStep) {
  TestPlan request = test::small_plan();
  const double once = variant(request, Strategy::no_shard, 1, 4).step.work.traffic.bus;
  EXPECT_EQ(once, bytes_of(request, 4) * 3 / 4 * 2);
  request.gradient_accumulation = 7;
  EXPECT_EQ(variant(request, Strategy::no_shard, 1, 4).step.work.traffic.bus, once);
}

TEST(RankWork, KeptWeightsAreGatheredOncePerStepAndGradientsReducedPerMicroBatch) {
  TestPlan request = test::small_plan();
  const double part = bytes_of(request, 4) * 3 / 4;
  for (const int micro_batches : {1, 2, 3, 7}) {
    request.gradient_accumulation = micro_batches;
    EXPECT_DOUBLE_EQ(variant(request, Strategy::shard_grad_op, 1, 4).step.work.traffic.bus, part * (1 + micro_batches));
  }
}

TEST(RankWork, FullShardingGathersTheTrunkAgainInBackward) {
  TestPlan request = test::small_plan();
  const double trunk = bytes_of(request, 4, "layers.0") + bytes_of(request, 4, "layers.1");
  const double part = (2 * bytes_of(request, 4) + trunk) * 3 / 4;
  for (const int micro_batches : {1, 2, 3, 7}) {
    request.gradient_accumulation = micro_batches;
    EXPECT_DOUBLE_EQ(variant(request, Strategy::full_shard, 1, 4).step.work.traffic.bus, part * micro_batches);
  }
}

TEST(RankWork, HybridShardingBetweenHostsSendsOnlySumsOfShards) {
  const TestPlan request = test::small_plan();
  const RankWork hybrid = variant(request, Strategy::hybrid_shard, 2, 4).step.work;
  EXPECT_DOUBLE_EQ(hybrid.traffic.network, bytes_of(request, 8) / 4 / 2 * 2);
  EXPECT_GT(variant(request, Strategy::full_shard, 2, 4).step.work.traffic.network, hybrid.traffic.network);
}

TEST(RankWork, CheckpointingRepeatsTheForwardPassOfTheTrunk) {
  TestPlan request = test::small_plan();
  const double plain = planned(request).work.operations;
  const double tokens = 4 * 128, of_block = 4 * 64 * 64 + 3 * 64 * 192, attention = 2 * 64 * 128;
  const double needed = tokens * (4 * 6 * (of_block + attention) + 2 * 6 * 512 * 64);
  EXPECT_DOUBLE_EQ(plain, needed - 4 * (1 + 2) * 6 * 512 * 64) << "the last one and two positions have no target";
  request.activation_checkpointing = 1;
  EXPECT_DOUBLE_EQ(planned(request).work.operations, plain + tokens * 2 * 2 * (of_block + attention));
  request.gradient_accumulation = 5;
  const RankWork work = planned(request).work;
  EXPECT_DOUBLE_EQ(work.operations, 5 * (plain + tokens * 2 * 2 * (of_block + attention)));
  EXPECT_DOUBLE_EQ(work.operations - work.extra, 5 * needed);
}

TEST(RankWork, FrozenModelsAndLossesThatAreNeededFirstAreExtra) {
  TestPlan request = test::small_plan();
  const RankWork plain = planned(request).work;
  request.weighting = [] {
    return std::make_unique<test::Weigh>(Needs{.when = When::all, .reads = {Signal::reference_loss}}, [](auto step) {
      return Weights::by_source((step.get(Signal::reference_loss) > 0).to(at::kFloat));
    });
  };
  const RankWork work = planned(request).work;
  EXPECT_DOUBLE_EQ(work.operations - work.extra, plain.operations - plain.extra);
  EXPECT_GT(work.operations, plain.operations * 4 / 3);
  request.experiment.reference.heads = ReferenceHeads::own;  // the second head's block, and its logits
  const double tokens = 4 * 128, of_block = 4 * 64 * 64 + 3 * 64 * 192, attention = 2 * 64 * 128;
  EXPECT_DOUBLE_EQ(planned(request).work.operations - work.operations,
                   tokens * 2 * (of_block + attention) + 4 * 126 * 2 * 512 * 64);
}

TEST(StepTime, WaitsOnlyForCommunicationWithoutAProductMeanwhileIfLinksAreFast) {
  const TestPlan request = test::small_plan();
  const Variant full_shard = variant(request, Strategy::full_shard, 1, 4);
  const StepTime time = time_of(full_shard, {.operations = 1, .bus = 1e3, .network = 1}, 0);
  EXPECT_EQ(time.computation, full_shard.step.work.operations);
  const double block = bytes_of(request, 4, "layers.0"), table = bytes_of(request, 4, "output");
  const double norm = bytes_of(request, 4, "norm");
  // Without one: the embedding and the trunk's first block in forward, the output and the first head, the trunk's last
  // block in backward; the last head's reduction, because those of the output and the norm follow at once; at the end
  // those of the trunk's first block and of the embedding. The gather of the trunk's last block in backward also waits
  // for the reductions of the output and the norm, which began before it.
  EXPECT_NEAR(time.seconds - time.computation, ((3 + 2) * block + (2 + 1 + 1) * table + norm) * 3 / 4 / 1e3, 0.01);
  EXPECT_EQ(variant(request, Strategy::full_shard, 1, 1).step.work.traffic.bus, 0);
}

TEST(StepTime, IsThatOfTheCommunicationIfLinksAreSlow) {
  TestPlan request = test::small_plan();
  for (const Strategy strategy : {Strategy::no_shard, Strategy::full_shard, Strategy::hybrid_shard})
    for (const int micro_batches : {1, 2, 7}) {
      request.gradient_accumulation = micro_batches;
      const Variant one = variant(request, strategy, 2, 2);
      const StepTime time = time_of(one, {.operations = 1e15, .bus = 1e15, .network = 1}, 0);
      EXPECT_DOUBLE_EQ(time.communication, one.step.work.traffic.network);
      EXPECT_NEAR(time.seconds / time.communication, 1, 1e-6) << to_string(strategy) << ", " << micro_batches;
    }
}

TEST(StepTime, IsThatOfTheProductsIfLinksTakeNoTime) {
  const Variant one = variant(test::small_plan(), Strategy::full_shard, 2, 2);
  const StepTime time = time_of(one, {.operations = 1e9}, 2e9);
  EXPECT_NEAR(time.seconds, one.step.work.operations / 1e9, 1e-12);
  EXPECT_NEAR(time.mfu, 0.5, 0.002) << "nothing is repeated; positions without a target count";
}

TEST(StepTime, SocketsTakeComputingTimeInCollectivesBetweenHosts) {
  const Rates rates{.operations = 1e9, .socket_seconds = 1e-9};
  const auto of_sockets = [&](const Variant& one) {
    return time_of(one, rates, 0).seconds - one.step.work.operations / 1e9;
  };
  const TestPlan request = test::small_plan();
  EXPECT_NEAR(of_sockets(variant(request, Strategy::full_shard, 1, 4)), 0, 1e-12);
  const Variant full = variant(request, Strategy::full_shard, 2, 2);
  EXPECT_NEAR(of_sockets(full), 1e-9 * (full.step.work.traffic.bus + full.step.work.traffic.network), 1e-12);
  const Variant hybrid = variant(request, Strategy::hybrid_shard, 2, 2);
  EXPECT_NEAR(of_sockets(hybrid), 1e-9 * hybrid.step.work.traffic.network, 1e-12) << "shard groups use memory";
}

TEST(StepTime, EveryByteOfACollectiveIsWaitedFor) {
  const Rates rates{.operations = 1e9, .exchange_seconds = 1e-9};
  for (const int hosts : {1, 2}) {
    const Variant one = variant(test::small_plan(), Strategy::full_shard, hosts, 4 / hosts);
    const Traffic& traffic = one.step.work.traffic;
    EXPECT_NEAR(time_of(one, rates, 0).seconds, 1e-9 * (one.step.work.operations + traffic.bus + traffic.network),
                1e-12);
  }
}

TEST(StepTime, LiesBetweenTheLargerPartAndTheSumOfBoth) {
  for (const double network : {1e6, 1e7, 1e8}) {
    const StepTime time = time_of(variant(test::small_plan(), Strategy::full_shard, 2, 2),
                                  {.operations = 1e9, .bus = 1e12, .network = network}, 0);
    EXPECT_GT(time.seconds, std::max(time.computation, time.communication));
    EXPECT_LT(time.seconds, time.computation + time.communication);
  }
}

TEST(RankWork, AShardedOptimizerReducesOncePerStep) {
  TestPlan request = test::small_plan();
  for (const int micro_batches : {1, 3, 7}) {
    request.gradient_accumulation = micro_batches;
    EXPECT_DOUBLE_EQ(variant(request, Strategy::shard_optimizer, 1, 4).step.work.traffic.bus,
                     2 * bytes_of(request, 4) * 3 / 4);
  }
}

ModelConfig llama(int64_t dim, int64_t layers, int64_t kv_heads, int64_t ffn_dim, int64_t vocab_size) {
  ModelConfig m;
  m.dim = dim;
  m.layers = layers;
  m.heads = dim / 128;
  m.kv_heads = kv_heads;
  m.ffn_dim = ffn_dim;
  m.vocab_size = vocab_size;
  m.future_tokens = 1;
  return m;
}

TestPlan in_bf16(const ModelConfig& model, int64_t sequences, int64_t positions) {
  TestPlan request = test::plan_of(model, sequences, positions);
  request.experiment.parallel.precision = Precision::bf16;
  request.on_cuda = true;
  return request;
}

/// Per second and device.
double tokens(const Variant& variant, const Hardware& hardware) {
  const StepTime time = time_of(variant, *rates_on(hardware, Precision::bf16), 0);
  return double(variant.request.sequences_per_rank * variant.request.sequence_length) / time.seconds;
}

/// benchmarks/llama3_h100_202412_torchtitan.md: Llama 3.1 8B, 2 x 8,192 tokens per H100 of 500 W, selective
/// checkpointing, not compiled. Its rate of products is that of the first figure.
TEST(StepTime, ScalesFrom8To128DevicesLikeTorchtitan) {
  const TestPlan request = in_bf16(llama(4096, 32, 8, 14336, 128256), 2, 8192);
  Hardware of_torchtitan = find_hardware("h100");
  of_torchtitan.products = 0.337;
  const double on_8 = tokens(variant(request, Strategy::full_shard, 1, 8), of_torchtitan);
  const double on_128 = tokens(variant(request, Strategy::full_shard, 16, 8), of_torchtitan);
  EXPECT_NEAR(on_8 / 5762, 1, 0.01);
  EXPECT_NEAR(on_128 / 5605, 1, 0.1);
  EXPECT_NEAR(on_128 / on_8, 5605.0 / 5762, 0.02);
  EXPECT_EQ(std::lround(on_128), 5506) << "docs/plan.md";
}

/// fms-fsdp, README.md: Llama 2 7B, hybrid sharding on 128 A100 in 16 hosts, 2 x 4,096 tokens per GPU. The figure is
/// the calibration; our schedule waits for a part of the sums over hosts, which that trainer hides.
TEST(StepTime, ReproducesTheCalibrationOfTheA100) {
  TestPlan request = in_bf16(llama(4096, 32, 32, 11008, 32000), 2, 4096);
  request.experiment.parallel.reduce = Precision::bf16;
  const Hardware& a100 = find_hardware("a100-80gb");
  EXPECT_NEAR(tokens(variant(request, Strategy::hybrid_shard, 16, 8), a100) / 3700, 0.964, 0.001);
  const double on_one_host = tokens(variant(request, Strategy::full_shard, 1, 8), a100);
  EXPECT_NEAR(on_one_host / 3700, 1, 0.01) << "with its communication hidden";
}

TEST(StepTime, WithoutACalibrationTakesTheLowestShareOfTheOthers) {
  EXPECT_DOUBLE_EQ(rates_on(find_hardware("l40s"), Precision::bf16)->operations, 0.513 * 362e12);
  EXPECT_DOUBLE_EQ(rates_on(find_hardware("rtx4090"), Precision::bf16)->operations, 0.513 * 165.2e12);
  EXPECT_DOUBLE_EQ(rates_on(find_hardware("a100-40gb"), Precision::bf16)->operations,
                   rates_on(find_hardware("a100-80gb"), Precision::bf16)->operations)
      << "the same chip";
}

TEST(RunCost, IsThatOfAllSteps) {
  PlannedData data;
  data.tokens_a_step = 1000;
  data.steps = 7200;
  const RunCost cost = run_cost(data, /*step_seconds=*/0.5, /*ranks=*/8);
  EXPECT_EQ(cost.tokens_per_second, 2000);
  EXPECT_EQ(cost.hours, 1);
  EXPECT_EQ(cost.gpu_hours, 8);
  EXPECT_EQ(cost.tokens, 7'200'000);
  data.steps.reset();
  EXPECT_FALSE(run_cost(data, 0.5, 8).hours) << "epochs over records that are not prepared yet";
}

TEST(StepTime, IsUnknownInFullPrecision) {
  EXPECT_FALSE(rates_on(find_hardware("h100"), Precision::fp32));
  EXPECT_THROW(find_hardware("h101"), Error);
}

/// With parameters, gradients and optimizer state in fp32: 16 bytes per parameter.
TEST(Plan, SeventyBillionParametersFitOn64Devices) {
  ModelConfig model = llama(8192, 80, 8, 28672, 32000);
  model.future_tokens = 4;
  TestPlan request = in_bf16(model, 2, 4096);
  request.activation_checkpointing = 1;
  const MemorySnapshot peak = highest_phase(variant(request, Strategy::full_shard, 8, 8).step.phases)->second;
  const double parameters = 68'976'648'192;
  const auto bytes = [&](MemoryCategory category) { return double(peak.bytes[size_t(category)]); };
  EXPECT_NEAR((bytes(MemoryCategory::parameters) + bytes(MemoryCategory::optimizer)) / (12 * parameters / 64), 1,
              0.001);
  EXPECT_LT(double(peak.total), 80e9);
}

StepCost cost(int64_t memory, double network, bool fits, std::optional<double> seconds = {}) {
  StepCost one{nullptr, memory, memory, {0, network}, fits, {}};
  if (seconds) one.time = StepTime{*seconds};
  return one;
}

TEST(Recommended, IsTheShortestStepThatFits) {
  const std::vector<StepCost> costs{cost(10, 5, true, 2.0), cost(90, 1, false, 1.0), cost(40, 9, true, 1.5)};
  EXPECT_EQ(recommended(costs), &costs[2]);
  const std::vector<StepCost> equal{cost(30, 5, true, 1.501), cost(20, 9, true, 1.5), cost(10, 9, true, 1.509)};
  EXPECT_EQ(recommended(equal), &equal[2]) << "within a hundredth, less memory";
  const std::vector<StepCost> timeless{cost(10, 5, true), cost(90, 1, false), cost(40, 3, true)};
  EXPECT_EQ(recommended(timeless), &timeless[2]);
  EXPECT_EQ(recommended({cost(90, 1, false)}), nullptr);
}

}  // namespace
}  // namespace wmtp
