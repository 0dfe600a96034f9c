// Replays one step, in the same order as engine/step/micro_step.cpp. N tokens of a micro-batch on this rank, D width, V
// vocabulary, e bytes per element in the compute dtype. Sizes of units: unit.hpp; of blocks: block.hpp; here:
//
//   hidden states between blocks   N D e each
//   head k, n = B (S - k) rows     its rows of hidden states n D e (if B > 1), their gradient n D e (counted as logits),
//                                  targets 8 n
//   logits                         chunk_tokens V e; if a weighting needs losses first and they fit in one chunk, half
//                                  as much again, an estimate for the logits of the tokens with a weight
//   logits in fp16                 8 V more per row of the chunk: row kernels do not support fp16, so they are copied
//                                  to fp32
//   chained heads                  N D e each: the embeddings that a head reads and their gradient, every head's output
//                                  and the gradient by its loss
//   d output in bf16               V D e temporarily, before it is added to the fp32 gradient
#include "core/replay/memory.hpp"

#include <algorithm>
#include <cmath>
#include <list>
#include <optional>

#include "core/model/backward_extent.hpp"
#include "core/model/chunks.hpp"
#include "core/model/model_tensors.hpp"
#include "core/model/reductions.hpp"
#include "core/replay/block.hpp"
#include "core/replay/unit.hpp"

namespace wmtp {
namespace {

int64_t wide_of(Precision precision) { return precision == Precision::fp16 ? 8 : 0; }

/// The units of one model, by name.
class StoredModel {
 public:
  StoredModel(Ledger& ledger, const PlannedModel& model, const MemoryQuestion& q) {
    const StorageSizes sizes{model.strategy,
                             model.precision,
                             q.ranks,
                             model.shard_group_size,
                             q.reduce,
                             q.background_saves,
                             model.replicate_frozen,
                             model.offload,
                             q.hosts,
                             q.on_cuda,
                             q.optimizer,
                             q.ema};
    for (const PlannedUnit& unit : model.layout) units_.emplace_back(ledger, sizes, unit);
    is_tied_ = model.shape.tie_word_embeddings && find(head_block_name(model.shape, 1));
  }
  std::list<StoredUnit>& units() { return units_; }
  StoredUnit* find(const std::string& name) {
    for (StoredUnit& unit : units_)
      if (unit.name() == (name == "output" && is_tied_ ? "tok_embeddings" : name)) return &unit;
    return nullptr;
  }
  StoredUnit& unit(const std::string& name) { return *find(name); }

 private:
  std::list<StoredUnit> units_;  // stable addresses
  bool is_tied_ = false;         // whether the embedding's unit is also the output layer's
};

class Replay {
 public:
  explicit Replay(const MemoryQuestion& question)
      : q_(question),
        m_(question.policy.shape),
        ledger_(question.rates),
        model_(ledger_, question.policy, question),
        here_(question.positions / question.sequence),
        N_(question.sequences * here_),
        e_(bytes_of(question.policy.precision)),
        wide_(wide_of(question.policy.precision)),
        ND_(N_ * m_.dim * e_),
        is_chained_(has_chained_heads(m_) && q_.token_heads > 1),
        backward_(m_, q_.token_heads, [this](const std::string& unit) { return unit_trains(unit); }) {
    for (const PlannedModel& frozen : q_.frozen) frozen_.emplace_back(ledger_, frozen, q_);
    const int64_t lowest_block = backward_.lowest_block();
    lowest_kept_ =
        lowest_block + std::llround(q_.activation_checkpointing * double(num_trunk_blocks(m_) - lowest_block));
    if (q_.activation_offload) ledger_.offloaded().host += ND_ * (lowest_kept_ - lowest_block);
  }

  PlannedMemory run() {
    const Held rotary(ledger_, MemoryCategory::other, q_.positions * head_dim(m_) * 4);
    // Ids, kinds, targets and signals of every micro-batch.
    const Held batches(ledger_, MemoryCategory::other, 16 * N_ * q_.sequence * q_.gradient_accumulation);
    // Those between the second and the last repeat the second.
    const int64_t micro_batches = std::min<int64_t>(q_.gradient_accumulation, 3);
    Offloaded& offloaded = ledger_.offloaded();
    for (int64_t i = 1; i <= micro_batches; ++i) {
      const Offloaded before = offloaded;
      const Work work_before = ledger_.work();
      ledger_.enter("frozen_models");
      for (size_t f = 0; f < q_.frozen.size(); ++f)
        frozen_signals(q_.frozen[f], *std::next(frozen_.begin(), int64_t(f)));
      micro_step(i == micro_batches);
      if (i != 2) continue;
      const int64_t repeated = std::max<int64_t>(q_.gradient_accumulation - 3, 0);
      offloaded.to_device += repeated * (offloaded.to_device - before.to_device);
      offloaded.to_host += repeated * (offloaded.to_host - before.to_host);
      ledger_.work().repeat(work_before, double(repeated));
    }
    optimizer();
    save();
    return {ledger_.phases(), ledger_.offloaded(), ledger_.work()};
  }

 private:
  Held hold(int64_t bytes) { return {ledger_, MemoryCategory::activations, bytes}; }
  static SharedMemory share(Held held) { return std::make_shared<Held>(std::move(held)); }
  Held logits(int64_t bytes) { return {ledger_, MemoryCategory::logits, bytes}; }
  /// Products of all tokens with a matrix of this many elements.
  void multiply(double products, int64_t elements) { ledger_.compute(products * 2 * double(N_) * double(elements)); }

  PlannedBlock block(const ModelConfig& shape, Precision precision, const StoredUnit& unit) {
    const PlannedAxis group{q_.sequence, std::min(q_.sequence, q_.ranks / q_.hosts)};
    return {ledger_, shape, {q_.sequences, q_.positions, bytes_of(precision), group}, unit.planned()};
  }
  PlannedBlock block(const std::string& name) { return block(m_, q_.policy.precision, model_.unit(name)); }
  bool unit_trains(const std::string& name) {
    const StoredUnit& unit = model_.unit(name);
    if (unit.trains()) return true;
    const auto& slots = unit.planned().slots;
    return std::any_of(slots.begin(), slots.end(),
                       [](const PlannedSlot& slot) { return !slot.adapter_params.empty(); });
  }
  bool has_value_heads() { return model_.find("value_heads") != nullptr; }

  void micro_step(bool last) {
    StoredUnit* const adapter = model_.find("adapter");
    std::vector<KeptBlock> frame;
    ledger_.enter("forward");
    if (adapter) adapter->ready();
    const SharedMemory trunk = forward_trunk(frame);
    SharedMemory d_trunk = share(hold(ND_));
    Held d_embedded = is_chained_ && model_.unit("tok_embeddings").trains() ? hold(ND_) : Held();
    {
      const InUse norm(model_.unit("norm"), model_.find("output"));
      if (has_value_heads()) {
        ledger_.enter("value_heads");
        value_heads();
        reductions_.start(model_.unit("value_heads"), last);
      }
      if (q_.token_heads > 0) heads(last);
    }
    ledger_.enter("backward");
    reductions_.start(model_.unit("norm"), last);
    backward_trunk(frame, std::move(d_trunk), last);
    if (adapter) {
      reductions_.start(*adapter, last);
      adapter->release();
    }
    reductions_.finish();
    embedded_.reset();
    ledger_.enter("other");
  }

  StoredUnit* unit_after_trunk_block(int64_t i) {
    return &model_.unit(i + 1 < num_trunk_blocks(m_) ? trunk_block_name(i + 1) : "norm");
  }

  SharedMemory forward_trunk(std::vector<KeptBlock>& frame) {
    SharedMemory h;
    {
      const InUse embedding(model_.unit("tok_embeddings"), unit_after_trunk_block(-1));
      h = share(hold(ND_));
    }
    if (is_chained_) embedded_ = h;
    for (int64_t i = 0; i < num_trunk_blocks(m_); ++i) {
      const InUse unit(model_.unit(trunk_block_name(i)), unit_after_trunk_block(i));
      const PlannedBlock here = block(trunk_block_name(i));
      if (i >= lowest_kept_) {
        frame.push_back(here.forward());
        inputs_.push_back(std::move(h));
        h = std::move(frame.back().output);
      } else {
        const bool is_kept = i >= backward_.lowest_block();
        if (is_kept && q_.activation_offload) copy_out(h);
        SharedMemory output = here.forward_without_grad();
        if (is_kept) {
          frame.emplace_back();
          inputs_.push_back(q_.activation_offload ? nullptr : std::move(h));
        }
        h = std::move(output);
      }
    }
    leaving_.reset();
    return h;
  }

  void backward_trunk(std::vector<KeptBlock>& frame, SharedMemory d_output, bool last) {
    SharedMemory output;  // this block's, which is the input of the block above
    for (int64_t i = num_trunk_blocks(m_) - 1; i >= backward_.lowest_block(); --i) {
      StoredUnit& unit = model_.unit(trunk_block_name(i));
      {
        const InUse weights(unit, i > backward_.lowest_block() ? &model_.unit(trunk_block_name(i - 1)) : nullptr);
        KeptBlock kept = std::move(frame.back());
        frame.pop_back();
        fetch_inputs(i);
        if (i < lowest_kept_) {
          const ExtraOperations repeated(ledger_);
          kept = block(trunk_block_name(i)).forward();
        }
        unit.write_gradient();
        write_adapter_gradient();
        d_output = block(trunk_block_name(i)).backward(kept).first;
        output.reset();
        if (i > lowest_kept_) output = std::move(inputs_.back());  // the graph below also keeps its output
        inputs_.pop_back();
      }
      reductions_.start(unit, last);
    }
    StoredUnit& embedding = model_.unit("tok_embeddings");
    if (!embedding.trains()) return;
    embedding.write_gradient();
    if (e_ != 4) hold(N_ * m_.dim * 4);
    reductions_.start(embedding, last);
  }

  void copy_out(const SharedMemory& input) {
    leaving_ = input;
    ledger_.offloaded().to_host += ND_;
  }

  /// Of block i, if it is offloaded, and of the block below.
  void fetch_inputs(int64_t i) {
    if (!q_.activation_offload) return;
    const auto fetched = [&] {
      ledger_.offloaded().to_device += ND_;
      return share(hold(ND_));
    };
    if (i < lowest_kept_) inputs_.back() = arriving_ ? std::move(arriving_) : fetched();
    if (i > backward_.lowest_block() && i - 1 < lowest_kept_) arriving_ = fetched();
  }

  void write_adapter_gradient() {
    if (StoredUnit* adapter = model_.find("adapter")) adapter->write_gradient();
  }

  void value_heads() {
    StoredUnit& unit = model_.unit("value_heads");
    const InUse weights(unit);
    const Held normed = hold(ND_), wide = hold(e_ == 4 ? 0 : N_ * m_.dim * 4);
    unit.write_gradient();
    model_.unit("norm").write_gradient();
    Held d_wide = hold(N_ * m_.dim * 4);
    const Held d_normed = hold(e_ == 4 ? 0 : ND_), d_input = hold(ND_);
    multiply(3, unit.planned().trained.parameters);
  }

  void heads(bool last) {
    ledger_.enter("weights");
    const InUse output(model_.unit("output"), unit_of_head(1));
    if (q_.when == "all") losses_of_heads();
    if (is_chained_)
      chained_heads(last);
    else
      parallel_heads(last);
    if (!m_.tie_word_embeddings) reductions_.start(model_.unit("output"), last);
  }

  void parallel_heads(bool last) {
    for (int64_t k = 1; k <= q_.token_heads; ++k) {
      ledger_.enter("head_" + std::to_string(k));
      {
        const InUse weights(*unit_of_head(k), unit_of_head(k + 1));
        if (backward_.reaches_head(k)) {
          KeptBlock kept = head(k).forward();
          const Held scale = hold(4 * N_), hidden = hold(ND_);
          const Held d_hidden = loss_gradient(k);
          Held d_normed = hold(ND_);
          model_.unit("norm").write_gradient();
          kept.output.reset();
          unit_of_head(k)->write_gradient();
          write_adapter_gradient();
          const auto d_input = head(k).backward(kept);
        } else {
          head(k).forward_without_grad();
          const Held hidden = hold(ND_);
          add_loss(k);
        }
      }
      reductions_.start(*unit_of_head(k), last);
      ledger_.enter("weights");
    }
  }

  void chained_heads(bool last) {
    std::vector<SharedMemory> outputs;
    std::vector<Held> d_hidden;
    const int64_t first = backward_.first_head();
    for (int64_t k = 1; k < std::max(q_.token_heads, first); ++k) {
      ledger_.enter("head_" + std::to_string(k));
      const InUse weights(*unit_of_head(k), unit_of_head(k + 1));
      {
        std::optional<ExtraOperations> repeated;
        if (backward_.reaches_head(k)) repeated.emplace(ledger_);
        const Held embedded = embedded_for(k);
        outputs.push_back(head(k).forward_without_grad());
      }
      const Held normed = hold(ND_);
      if (backward_.reaches_head(k))
        d_hidden.push_back(loss_gradient(k));
      else
        add_loss(k);
    }
    SharedMemory d_output;
    for (int64_t k = q_.token_heads; k >= first; --k) {
      ledger_.enter("head_" + std::to_string(k));
      {
        const InUse weights(*unit_of_head(k), unit_of_head(k - 1));
        const SharedMemory input = outputs.empty() ? nullptr : std::move(outputs.back());
        if (input) outputs.pop_back();
        const Held embedded = embedded_for(k);
        KeptBlock kept = head(k).forward();
        const Held scale = hold(4 * N_), hidden = hold(ND_);
        if (k == q_.token_heads) d_hidden.push_back(loss_gradient(k));
        const Held of_own_loss = std::move(d_hidden.back()), d_normed = hold(ND_);
        d_hidden.pop_back();
        const Held sum = d_output ? hold(ND_) : Held();
        model_.unit("norm").write_gradient();
        if (!d_output) kept.output.reset();
        unit_of_head(k)->write_gradient();
        write_adapter_gradient();
        const auto [d_input, d_embedded] = head(k).backward(kept);
        d_output = d_input;
        const Held moved = d_embedded ? hold(ND_) : Held();
      }
      reductions_.start(*unit_of_head(k), last);
      ledger_.enter("weights");
    }
  }

  StoredUnit* unit_of_head(int64_t k) {
    return k >= 1 && k <= q_.token_heads ? &model_.unit(head_block_name(m_, k)) : nullptr;
  }
  PlannedBlock head(int64_t k) { return block(head_block_name(m_, k)); }
  Held embedded_for(int64_t k) { return hold(is_chained_ && k > 1 ? ND_ : 0); }

  void losses_of_heads() {
    const ExtraOperations repeated(ledger_);
    SharedMemory before;
    for (int64_t k = 1; k <= q_.token_heads; ++k) {
      const InUse weights(*unit_of_head(k));
      Held embedded = embedded_for(k);
      const SharedMemory output = head(k).forward_without_grad();
      embedded.reset();
      if (is_chained_) before = output;
      const Held normed = hold(ND_);
      scores(k);
    }
  }

  void scores(int64_t k) {
    const Rows rows = rows_of_head(k);
    const int64_t chunk = std::min(chunk_tokens(m_.vocab_size, q_.on_cuda), rows.count);
    logits(chunk * m_.vocab_size * (e_ + wide_));
    multiply(1, m_.vocab_size * m_.dim);
  }

  /// Like TokenLoss::add_loss.
  void add_loss(int64_t k) {
    if (model_.unit("output").trains())
      loss_gradient(k);
    else
      scores(k);
  }

  struct Rows {
    int64_t count;
    Held hidden, targets;
  };
  Rows rows_of_head(int64_t k) {
    const int64_t count = q_.sequences * std::min(here_, q_.positions - k);
    return {count, hold(q_.sequences > 1 ? count * m_.dim * e_ : 0), hold(8 * count)};
  }

  /// The gradient of head k's weighted loss with respect to its hidden states.
  Held loss_gradient(int64_t k) {
    const Rows rows = rows_of_head(k);
    const bool losses_first = q_.when == "head";
    const int64_t chunk = std::min(chunk_tokens(m_.vocab_size, q_.on_cuda, losses_first), rows.count);
    const int64_t chunk_bytes = chunk * m_.vocab_size * e_;
    StoredUnit& output = model_.unit("output");
    const int64_t wide_bytes = chunk * m_.vocab_size * wide_;
    const bool fits = chunk == rows.count;
    const Held losses = logits((losses_first ? 3 : 2) * 4 * rows.count);
    Held scored;
    if (losses_first) {
      scored = logits(chunk_bytes);
      logits(wide_bytes);
      if (!fits) scored.reset();
    }
    const Held d_rows = logits(rows.count * m_.dim * e_);
    {
      const Held copied = losses_first && !fits ? logits(2 * chunk * m_.dim * e_) : Held();
      const Held of_chunk = logits(scored ? chunk_bytes / 2 : chunk_bytes);
      logits(wide_bytes);
      scored.reset();
      output.write_gradient();
      if (output.trains() && e_ != 4) logits(m_.vocab_size * m_.dim * e_);
    }
    multiply(output.trains() ? 3 : 2, m_.vocab_size * m_.dim);
    const ExtraOperations repeated(ledger_);
    if (losses_first && !fits) multiply(1, m_.vocab_size * m_.dim);
    return hold(ND_);
  }

  /// Like FrozenModel in engine/frozen/frozen_cache.cpp.
  void frozen_signals(const PlannedModel& model, StoredModel& stored) {
    const ExtraOperations extra(ledger_);
    const ModelConfig& shape = model.shape;
    const int64_t e = bytes_of(model.precision), bytes = N_ * shape.dim * e;
    const bool predicts = stored.find("output") != nullptr;
    const int64_t blocks = num_trunk_blocks(shape) + (predicts ? 1 : 0);
    const auto unit = [&](int64_t i) { return &stored.unit(i == blocks ? "norm" : trunk_block_name(i)); };
    SharedMemory h;
    {
      const InUse embedding(stored.unit("tok_embeddings"), unit(0));
      h = share(hold(bytes));
    }
    for (int64_t i = 0; i < blocks; ++i) {
      const InUse weights(*unit(i), unit(i + 1));
      h = block(shape, model.precision, *unit(i)).forward_without_grad();
    }
    const InUse norm(stored.unit("norm"), stored.find(predicts ? "output" : "value_heads"));
    const Held normed = hold(bytes);
    if (!predicts) {
      const InUse heads(stored.unit("value_heads"));
      hold(N_ * shape.dim * 4);
      return;
    }
    const InUse output(stored.unit("output"));
    multiply(1, shape.vocab_size * shape.dim);
    const int64_t count = q_.sequences * std::min(here_, q_.positions - 1);
    const Held rows = hold(q_.sequences > 1 ? count * shape.dim * e : 0);
    logits(std::min(chunk_tokens(shape.vocab_size, q_.on_cuda), count) * shape.vocab_size *
           (e + wide_of(model.precision)));
  }

  void optimizer() {
    ledger_.enter("optimizer");
    for (StoredUnit& unit : model_.units())
      for (StoredGroup& group : unit.groups()) group.step();
  }

  /// Saving the final model gathers one group at a time, complete on each rank.
  void save() {
    ledger_.enter("checkpoint");
    for (StoredUnit& unit : model_.units())
      for (StoredGroup& group : unit.groups()) {
        const Held whole(ledger_, MemoryCategory::other, group.gather_for_saving());
      }
  }

  const MemoryQuestion& q_;
  const ModelConfig& m_;
  Ledger ledger_;
  StoredModel model_;
  std::list<StoredModel> frozen_;
  int64_t here_;  // positions of a sequence on this rank
  int64_t N_, e_, wide_, ND_;
  bool is_chained_;
  SharedMemory embedded_;  // of the tokens; kept for chained heads
  BackwardExtent backward_;
  int64_t lowest_kept_ = 0;
  std::vector<SharedMemory> inputs_;  ///< of the blocks in `frame`; null if offloaded
  SharedMemory leaving_, arriving_;   ///< offloaded inputs in transfer
  Reductions<StoredUnit> reductions_;
};

}  // namespace

PlannedMemory plan_memory(const MemoryQuestion& question) { return Replay(question).run(); }

std::map<std::string, MemoryMoment>::const_iterator highest(const std::map<std::string, MemoryMoment>& phases) {
  return std::max_element(phases.begin(), phases.end(),
                          [](const auto& a, const auto& b) { return a.second.total < b.second.total; });
}

}  // namespace wmtp
