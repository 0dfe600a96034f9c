#include "core/replay/memory.hpp"

#include <gtest/gtest.h>

#include "core/replay/small_question.hpp"
#include "core/replay/unit.hpp"

namespace wmtp {
namespace {

constexpr auto parameters = size_t(MemoryCategory::parameters), gathered = size_t(MemoryCategory::gathered),
               gradients = size_t(MemoryCategory::gradients), optimizer = size_t(MemoryCategory::optimizer),
               activations = size_t(MemoryCategory::activations), logits = size_t(MemoryCategory::logits);

TEST(Ledger, KeepsThePeakOfEachPhase) {
  Ledger ledger;
  ledger.enter("forward");
  {
    const Held kept(ledger, MemoryCategory::activations, 30);
    const Held logits(ledger, MemoryCategory::logits, 20);
  }
  const Held later(ledger, MemoryCategory::logits, 40);
  ledger.enter("backward");
  const MemoryMoment forward = ledger.phases().at("forward");
  EXPECT_EQ(forward.total, 50);
  EXPECT_EQ(forward.bytes[size_t(MemoryCategory::activations)], 30);
  EXPECT_EQ(ledger.phases().at("backward").total, 40) << "bytes of earlier phases count";
}

TEST(Held, IsReleasedOnceEvenIfMoved) {
  Ledger ledger;
  ledger.enter("first");
  Held a(ledger, MemoryCategory::other, 10), b(ledger, MemoryCategory::other, 5);
  b = std::move(a);
  b.reset();
  b.reset();
  ledger.enter("second");
  EXPECT_EQ(ledger.phases().at("second").total, 0);
}

/// Bytes of one category that a group of 1,000 trained elements holds after `act`.
template <class Act>
int64_t held(Strategy strategy, Precision precision, size_t category, Act act) {
  Ledger ledger;
  StoredGroup group(ledger, {strategy, precision, 4}, {990, 1000}, /*trains=*/true, /*fp32=*/false);
  act(group);
  ledger.enter("now");
  return ledger.phases().at("now").bytes[category];
}

TEST(StoredGroup, IsPaddedAndShardedLikeAParameterGroup) {
  const auto nothing = [](StoredGroup&) {};
  EXPECT_EQ(held(Strategy::no_shard, Precision::bf16, parameters, nothing), 4 * 1024);
  EXPECT_EQ(held(Strategy::full_shard, Precision::bf16, parameters, nothing), 1024);
  EXPECT_EQ(held(Strategy::full_shard, Precision::bf16, optimizer, nothing), 2 * 1024);
}

TEST(StoredGroup, IsGatheredByItsStrategy) {
  const auto use = [](StoredGroup& group) {
    group.start_gather();
    group.ready();
  };
  const auto use_and_release = [&](StoredGroup& group) {
    use(group);
    group.release();
  };
  EXPECT_EQ(held(Strategy::full_shard, Precision::bf16, gathered, use), 2 * 1024);
  EXPECT_EQ(held(Strategy::full_shard, Precision::bf16, gathered, use_and_release), 0);
  for (const Strategy keeps : {Strategy::shard_grad_op, Strategy::shard_optimizer})
    EXPECT_EQ(held(keeps, Precision::bf16, gathered, use_and_release), 2 * 1024) << to_string(keeps);
  EXPECT_EQ(held(Strategy::no_shard, Precision::fp32, gathered, use), 0) << "the master itself";
  EXPECT_EQ(held(Strategy::no_shard, Precision::bf16, gathered, use_and_release), 2 * 1024) << "a cast copy";
}

TEST(StoredGroup, KeepsTheLocalShardOfTheGradient) {
  const auto reduce = [](StoredGroup& group) {
    group.write_gradient();
    group.start_reduce(true);
    group.finish_reduce();
  };
  EXPECT_EQ(held(Strategy::full_shard, Precision::fp32, gradients, reduce), 1024);
  EXPECT_EQ(held(Strategy::shard_optimizer, Precision::fp32, gradients, reduce), 1024);
  EXPECT_EQ(held(Strategy::no_shard, Precision::fp32, gradients, reduce), 4 * 1024);
  const auto first_of_two = [](StoredGroup& group) {
    group.write_gradient();
    group.start_reduce(false);
    group.finish_reduce();
  };
  for (const Strategy late : {Strategy::no_shard, Strategy::shard_optimizer})
    EXPECT_EQ(held(late, Precision::fp32, gradients, first_of_two), 4 * 1024) << "not reduced yet";
}

/// As held(), on four ranks in two shard groups, with reductions in bf16.
template <class Act>
int64_t held_by_hybrid(size_t category, Act act) {
  Ledger ledger;
  StoredGroup group(ledger, {Strategy::hybrid_shard, Precision::bf16, 4, 2, Precision::bf16}, {990, 1000},
                    /*trains=*/true, /*fp32=*/false);
  act(group);
  ledger.enter("now");
  return ledger.phases().at("now").bytes[category];
}

TEST(StoredGroup, IsShardedInItsShardGroupAndSummedOverReplicas) {
  const auto communication = size_t(MemoryCategory::communication);
  const auto reduce = [](bool last) {
    return [last](StoredGroup& group) {
      group.write_gradient();
      group.start_reduce(last);
      group.finish_reduce();
    };
  };
  const auto reduce_replicas = [&](StoredGroup& group) {
    reduce(true)(group);
    group.finish_replicate_reduce();
    group.finish_sharing_sums();
  };
  EXPECT_EQ(held_by_hybrid(parameters, [](StoredGroup&) {}), 4 * 512);
  EXPECT_EQ(held_by_hybrid(gathered, [](StoredGroup& group) { group.start_gather(), group.ready(); }), 2 * 1024);
  EXPECT_EQ(held_by_hybrid(gradients, reduce(true)), 4 * 512);
  EXPECT_EQ(held_by_hybrid(communication, reduce(true)), 2 * 2 * 512) << "sent and received in the replicate group";
  EXPECT_EQ(held_by_hybrid(communication, reduce(false)), 0) << "replicas are summed once per step";
  EXPECT_EQ(held_by_hybrid(communication, reduce_replicas), 0);
}

int64_t at_most(const MemoryQuestion& question, size_t category) {
  const auto phases = plan_memory(question).phases;
  return highest(phases)->second.bytes[category];
}

TEST(PlanMemory, ThePeakIsTheSumOfItsCategories) {
  const auto phases = plan_memory(test::small_question()).phases;
  for (const auto& [phase, moment] : phases) {
    int64_t sum = 0;
    for (const int64_t bytes : moment.bytes) sum += bytes;
    EXPECT_EQ(sum, moment.total) << phase;
    EXPECT_LE(moment.total, highest(phases)->second.total) << phase;
  }
  EXPECT_EQ(phases.count("head_2"), 1U);
  EXPECT_EQ(phases.count("head_3"), 0U);
}

TEST(PlanMemory, CheckpointingKeepsOnlyTheInputsOfBlocks) {
  MemoryQuestion deep = test::small_question();
  deep.policy.shape.layers = 34;
  for (int i = 3; i < 33; ++i) {
    PlannedUnit block = deep.policy.layout[1];
    block.name = "layers." + std::to_string(i);
    deep.policy.layout.push_back(block);
  }
  MemoryQuestion checkpointed = deep;
  checkpointed.activation_checkpointing = 1;
  EXPECT_LT(at_most(checkpointed, activations), at_most(deep, activations) / 4);
  MemoryQuestion half = deep;
  half.activation_checkpointing = 0.5;
  EXPECT_NEAR(double(at_most(half, activations)),
              double(at_most(checkpointed, activations) + at_most(deep, activations)) / 2,
              double(at_most(deep, activations)) / 20);
  MemoryQuestion offloaded = checkpointed;
  offloaded.activation_offload = true;
  offloaded.gradient_accumulation = 3;
  const PlannedMemory without_inputs = plan_memory(offloaded);
  const Offloaded inputs = without_inputs.offloaded;
  const auto during_head = [](const PlannedMemory& memory) { return memory.phases.at("head_1").bytes[activations]; };
  EXPECT_EQ(during_head(plan_memory(checkpointed)) - during_head(without_inputs), inputs.host);
  EXPECT_EQ(inputs.host, 32 * 4 * 128 * 64 * 4) << "32 blocks, 4 sequences of 128 positions, 64 wide, fp32";
  EXPECT_EQ(inputs.to_host, 3 * inputs.host);
  EXPECT_EQ(inputs.to_device, 3 * inputs.host);
}

TEST(PlanMemory, LogitsAreThoseOfOneChunkForAnyNumberOfHeads) {
  MemoryQuestion question = test::small_question();
  question.policy.shape.vocab_size = 65536;  // 256 tokens of a chunk
  const auto phases = plan_memory(question).phases;
  const int64_t chunk = 256 * 65536 * 4;
  for (const char* head : {"head_1", "head_2"}) {
    EXPECT_GE(phases.at(head).bytes[logits], chunk);
    EXPECT_LT(phases.at(head).bytes[logits], chunk * 11 / 10);
  }
}

TEST(PlanMemory, ShardingSplitsTheTrainingState) {
  MemoryQuestion question = test::small_question();
  question.ranks = 4;
  question.policy.strategy = Strategy::no_shard;
  const int64_t whole = at_most(question, parameters);
  question.policy.strategy = Strategy::full_shard;
  EXPECT_EQ(at_most(question, parameters), whole / 4);
  EXPECT_EQ(at_most(question, optimizer), 2 * whole / 4);
}

TEST(PlanMemory, AFrozenModelAddsOnlyItsWeights) {
  MemoryQuestion question = test::small_question();
  const int64_t alone = at_most(question, parameters);
  PlannedModel frozen = question.policy;
  for (PlannedUnit& one : frozen.layout) std::swap(one.trained, one.frozen);
  frozen.layout.erase(frozen.layout.begin() + 4);
  frozen.shape.layers = 3;
  frozen.shape.future_tokens = 1;
  question.frozen.push_back(frozen);
  EXPECT_GT(at_most(question, parameters), alone);
  EXPECT_EQ(plan_memory(question).phases.at("optimizer").bytes[optimizer],
            plan_memory(test::small_question()).phases.at("optimizer").bytes[optimizer]);
}

TEST(PlanMemory, OffloadedMastersCostHostMemoryAndTransfers) {
  MemoryQuestion question = test::small_question();
  question.ranks = 4;
  question.policy.precision = Precision::bf16;
  const PlannedMemory here = plan_memory(question);
  question.policy.offload = CpuOffload::trained;
  const PlannedMemory offloaded = plan_memory(question);
  EXPECT_EQ(here.offloaded.host + here.offloaded.to_device + here.offloaded.to_host, 0);
  int64_t elements = 0;  // per rank; each unit is padded to 64 per rank
  for (const PlannedUnit& unit : question.policy.layout) elements += (unit.trained.elements + 255) / 256 * 64;
  EXPECT_EQ(offloaded.offloaded.host, elements * (4 + 8 + 2));
  EXPECT_EQ(offloaded.offloaded.to_host, elements * 4);
  EXPECT_GT(offloaded.offloaded.to_device, elements * 2) << "trunk blocks are gathered for each pass";
  EXPECT_LT(offloaded.offloaded.to_device, elements * 2 * 2);
  const auto peak = highest(offloaded.phases)->second;
  EXPECT_EQ(peak.bytes[parameters] + peak.bytes[optimizer], 0);

  question.policy.strategy = Strategy::no_shard;
  const int64_t once = plan_memory(question).offloaded.to_device;
  question.gradient_accumulation = 5;
  EXPECT_EQ(plan_memory(question).offloaded.to_device, once) << "the weights stay for the whole step";
  question.policy.strategy = Strategy::full_shard;
  EXPECT_EQ(plan_memory(question).offloaded.to_device, 5 * offloaded.offloaded.to_device);
}

TEST(PlanMemory, OffloadedFrozenWeightsAreOnTheDeviceOnlyWhileUsed) {
  MemoryQuestion question = test::small_question();
  question.policy.precision = Precision::bf16;
  question.policy.strategy = Strategy::no_shard;
  for (PlannedUnit& one : question.policy.layout) std::swap(one.trained, one.frozen);
  const int64_t here = at_most(question, parameters);
  question.policy.offload = CpuOffload::trained;
  EXPECT_EQ(at_most(question, parameters), here);
  question.policy.offload = CpuOffload::all;
  EXPECT_EQ(at_most(question, parameters), 0);
  EXPECT_LT(at_most(question, gathered), here * 6 / 10);
  EXPECT_EQ(plan_memory(question).offloaded.host, here);
}

}  // namespace
}  // namespace wmtp
