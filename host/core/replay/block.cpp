#include "core/replay/block.hpp"

#include <algorithm>

#include "core/model/chunks.hpp"

namespace wmtp {
namespace {

/// A value of the forward pass.
struct PlannedRows {
  SharedMemory memory;
  int64_t features = 0;
  size_t value = 0;  ///< its index
};

PlannedRows without_memory(const PlannedRows& rows) { return {nullptr, rows.features, rows.value}; }

}  // namespace

/// The operations of a block's forward pass, as allocations.
class PlannedMath {
 public:
  /// kept: null for a forward pass without gradients.
  PlannedMath(const PlannedBlock& block, KeptBlock* kept) : block_(block), kept_(kept) {}

  /// The input, whose memory the caller owns.
  PlannedRows input() { return {nullptr, block_.model_.dim, new_value()}; }

  PlannedRows norm(Layer layer, const PlannedRows& x) {
    const int64_t width = block_layer({layer, {}, {}}, block_.model_).out;
    const PlannedRows y = new_rows(x.features);
    const SharedMemory scales = hold(4 * block_.sizes_.tokens() * (x.features / width));
    record(y, [x, scales, bytes = bytes(x.features)](Gradients& gradients, const SharedMemory&) {
      gradients.give(x.value, gradients.hold(bytes), bytes);
    });
    return y;
  }

  /// With an adapter: its update, the layer's own output and their sum. With a bias: the product and the sum. In bf16
  /// the weight's gradient is computed in bf16 before it is added to the fp32 gradient.
  PlannedRows linear(Layer layer, const PlannedRows& x) {
    const PlannedSlot& slot = *std::ranges::find(block_.unit_.slots, int(layer), &PlannedSlot::layer);
    const bool is_adapted = !slot.adapter_params.empty();
    if (is_adapted) hold(3 * bytes(slot.out));
    if (slot.has_bias) hold(2 * bytes(slot.out));
    const PlannedRows y = new_rows(slot.out);
    int64_t read_by_adapter = 0;  // columns of matrices that do not read the layer's input: LoRA's B
    int64_t of_adapter = 0;       // elements
    for (const auto& [rows, columns] : slot.adapter_params) {
      read_by_adapter += columns == slot.in ? 0 : columns;
      of_adapter += rows * columns;
    }
    const int64_t elements = slot.in * slot.out;
    block_.ledger_.compute(operations(elements + of_adapter));
    if (!kept_) return y;
    const PlannedRows kept = slot.trains || is_adapted ? x : without_memory(x);
    const int64_t element = block_.sizes_.element, product = slot.trains && element != 4 ? elements * element : 0;
    record(y, [kept, product, operations = operations((slot.trains ? 2 : 1) * elements + 2 * of_adapter),
               bytes = bytes(x.features),
               inputs = hold(bytes(read_by_adapter))](Gradients& gradients, const SharedMemory&) {
      gradients.compute(operations);
      gradients.hold(product);
      gradients.give(kept.value, gradients.hold(bytes), bytes);
    });
    return y;
  }

  PlannedRows rotate(const PlannedRows& x) {
    const PlannedRows y = new_rows(x.features);
    record(y, [x = without_memory(x), bytes = bytes(x.features)](Gradients& gradients, const SharedMemory&) {
      gradients.give(x.value, gradients.hold(bytes), bytes);
    });
    return y;
  }

  PlannedRows unrotated(const PlannedRows& x) const { return x; }

  PlannedRows attention(const PlannedRows& query, const PlannedRows& key, const PlannedRows& value) {
    return block_.sizes_.group.ranks > 1 ? split_attention(query, key, value) : causal_attention(query, key, value);
  }

  PlannedRows swiglu(const PlannedRows& gate, const PlannedRows& up) {
    const PlannedRows y = new_rows(gate.features);
    record(y, [gate, up, bytes = bytes(gate.features)](Gradients& gradients, const SharedMemory&) {
      gradients.give(gate.value, gradients.hold(bytes), bytes);
      gradients.give(up.value, gradients.hold(bytes), bytes);
    });
    return y;
  }

  PlannedRows add(const PlannedRows& x, const PlannedRows& y) {
    const PlannedRows sum = new_rows(x.features);
    record(sum, [x = x.value, y = y.value, bytes = bytes(x.features)](Gradients& gradients, const SharedMemory& d_sum) {
      gradients.give(x, d_sum, bytes);
      gradients.give(y, d_sum, bytes);
    });
    return sum;
  }

  /// Their gradients are views of the gradient of both.
  PlannedRows joined(const PlannedRows& x, const PlannedRows& y) {
    const PlannedRows both = new_rows(x.features + y.features);
    record(both, [x = x.value, y = y.value, of_x = bytes(x.features), of_y = bytes(y.features)](
                     Gradients& gradients, const SharedMemory& d_both) {
      gradients.give(x, d_both, of_x);
      gradients.give(y, d_both, of_y);
    });
    return both;
  }

  PlannedRows wanted(const PlannedRows& x) const { return x; }

 private:
  /// Gradients of keys and values are computed in fp32 for each part of the queries, then summed and rounded.
  PlannedRows causal_attention(const PlannedRows& query, const PlannedRows& key, const PlannedRows& value) {
    const PassSizes& sizes = block_.sizes_;
    const SharedMemory log_sums = hold(4 * sizes.tokens() * block_.model_.heads);
    const PlannedRows y = new_rows(query.features);
    hold(scratch_bytes(/*backward=*/false));
    const int64_t window = block_.model_.sliding_window;
    const int64_t keys = window > 0 ? std::min(window, sizes.positions) : sizes.positions;
    const double computed = operations(2 * query.features * keys);  // without a discount for the causal mask
    block_.ledger_.compute(computed);
    const int64_t parts =
        parts_of_queries(sizes.sequences * block_.model_.kv_heads / sizes.group.ranks, sizes.positions);
    const int64_t of_parts = 4 * parts * sizes.tokens() * key.features;
    const bool are_results = parts == 1 && sizes.element == 4;
    record(y, [query, key, value, log_sums, of_query = bytes(query.features), of_key = bytes(key.features), of_parts,
               are_results, computed,
               scratch = scratch_bytes(/*backward=*/true)](Gradients& gradients, const SharedMemory&) {
      gradients.compute(2 * computed);
      gradients.give(query.value, gradients.hold(of_query), of_query);
      const SharedMemory d_key = gradients.hold(of_parts), d_value = gradients.hold(of_parts);
      gradients.hold(scratch);
      gradients.give(key.value, are_results ? d_key : gradients.hold(of_key), of_key);
      gradients.give(value.value, are_results ? d_value : gradients.hold(of_key), of_key);
    });
    return y;
  }

  /// The exchanges of engine/model/split_attention.cpp. What is received is copied head by head.
  PlannedRows split_attention(const PlannedRows& query, const PlannedRows& key, const PlannedRows& value) {
    const PlannedAxis& group = block_.sizes_.group;
    const int64_t of_query = bytes(query.features), of_key = bytes(key.features), of_all = of_query + 2 * of_key;
    const Gradients exchanges(block_.ledger_, 0);
    SharedMemory received = exchanges.exchange(group, of_all);
    const PlannedRows all_queries = new_rows(query.features), all_keys = new_rows(key.features),
                      all_values = new_rows(value.features);
    record(all_queries,
           [query = query.value, key = key.value, value = value.value, group, of_query, of_key, of_all,
            all_keys = all_keys.value, all_values = all_values.value](Gradients& gradients, const SharedMemory&) {
             const SharedMemory d_keys = gradients.take(all_keys), d_values = gradients.take(all_values);
             const SharedMemory d_all = gradients.exchange(group, of_all);
             gradients.give(query, d_all, of_query);
             gradients.give(key, d_all, of_key);
             gradients.give(value, d_all, of_key);
           });
    const PlannedRows mixed = causal_attention(all_queries, all_keys, all_values);
    received.reset();
    exchanges.exchange(group, of_query);
    const PlannedRows y = new_rows(query.features);
    record(y, [mixed = mixed.value, group, of_query](Gradients& gradients, const SharedMemory&) {
      gradients.give(mixed, gradients.exchange(group, of_query), of_query);
    });
    return y;
  }

  /// Of the product of all tokens with a matrix of this many elements.
  double operations(int64_t elements) const { return 2 * double(block_.sizes_.tokens()) * double(elements); }
  int64_t bytes(int64_t features) const { return block_.sizes_.tokens() * features * block_.sizes_.element; }
  /// Per thread.
  int64_t scratch_bytes(bool backward) const {
    return 4 * attention_scratch(block_.sizes_.positions, head_dim(block_.model_), backward);
  }
  SharedMemory hold(int64_t bytes) const {
    return std::make_shared<Held>(block_.ledger_, MemoryCategory::activations, bytes);
  }
  size_t new_value() { return kept_ ? kept_->values++ : 0; }
  PlannedRows new_rows(int64_t features) { return {hold(bytes(features)), features, new_value()}; }
  template <class Backward>
  void record(const PlannedRows& output, Backward backward) {
    if (kept_) kept_->operations.push_back({output.value, std::move(backward)});
  }

  const PlannedBlock& block_;
  KeptBlock* kept_;
};

SharedMemory PlannedBlock::run(KeptBlock* kept) const {
  PlannedMath math(*this, kept);
  const PlannedRows x = math.input();
  if (!is_chained(model_, unit_.name)) return block_forward(math, model_, unit_.name, x).memory;
  const PlannedRows embedded = math.input();
  return block_forward(math, model_, unit_.name, chained_input(math, x, embedded)).memory;
}

KeptBlock PlannedBlock::forward() const {
  KeptBlock kept;
  kept.output = run(&kept);
  return kept;
}

SharedMemory PlannedBlock::forward_without_grad() const { return run(nullptr); }

std::pair<SharedMemory, SharedMemory> PlannedBlock::backward(KeptBlock& kept) const {
  Gradients gradients(ledger_, kept.values);
  const SharedMemory held_by_caller = std::make_shared<Held>();
  gradients.give(kept.operations.back().output, held_by_caller, 0);
  for (; !kept.operations.empty(); kept.operations.pop_back()) {
    const KeptBlock::Operation& operation = kept.operations.back();
    const SharedMemory d_output = gradients.take(operation.output);
    operation.backward(gradients, d_output);
  }
  constexpr size_t input = 0, embedded = 1;
  return {gradients.take(input), is_chained(model_, unit_.name) ? gradients.take(embedded) : nullptr};
}

}  // namespace wmtp
