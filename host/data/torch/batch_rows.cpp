#include "data/torch/batch_rows.hpp"

#include <algorithm>

#include "plugins/torch/signals.hpp"

namespace wmtp {

using at::Tensor;

BatchRows::BatchRows(const std::vector<int64_t>& sequences, int64_t rank, int64_t world, int64_t S,
                     const BatchRequest& request, bool separate)
    : request_(request) {
  const int64_t B = int64_t(sequences.size()) / world;
  micro_.sequences.assign(sequences.begin() + rank * B, sequences.begin() + (rank + 1) * B);
  micro_.windows.assign(size_t(B), -1);
  micro_.bins.assign(size_t(B), -1);
  micro_.offsets = request.offsets;
  micro_.counts.assign(size_t(request.heads), 0);
  const Tensor unknown = at::full({B}, -1, at::kLong);
  micro_.batch = {at::zeros({B, S}, at::kLong), at::zeros({B, S}, at::kByte), at::tensor(micro_.sequences), unknown,
                  unknown.clone()};
  for (const Signal signal : request.signals)
    if (signal != Signal::data_bytes) micro_.signals[to_text(signal)] = at::zeros({B, S}, at::kFloat);
  // A position of padding reads no key but its own.
  if (separate) micro_.documents.begins = at::arange(S, at::kInt).expand({B, S}).contiguous();
}

int64_t* BatchRows::ids(int64_t row) {
  return micro_.batch.tokens.mutable_data_ptr<int64_t>() + row * micro_.batch.tokens.size(1);
}

uint8_t* BatchRows::kinds(int64_t row) {
  return micro_.batch.kind.mutable_data_ptr<uint8_t>() + row * micro_.batch.kind.size(1);
}

float* BatchRows::signal(Signal signal, int64_t row) {
  const Tensor& rows = micro_.signals.at(to_text(signal));
  return rows.mutable_data_ptr<float>() + row * rows.size(1);
}

/// Targets of a head are at the position of its offset in the document or later: their source is so much earlier.
void BatchRows::add_document(int64_t row, int64_t begin, int64_t length) {
  if (Tensor& begins = micro_.documents.begins; begins.defined())
    std::fill_n(begins.mutable_data_ptr<int32_t>() + row * begins.size(1) + begin, length, int32_t(begin));
  const uint8_t *const first = kinds(row) + begin, *const last = first + length;
  micro_.tokens += length;
  micro_.answer_tokens += std::count(first, last, answer_kind);
  micro_.attended_keys += length * (request_.window > 0 ? std::min(length, request_.window) : length);
  for (int64_t k = 1; k <= request_.heads && micro_.offset(k) <= length; ++k) {
    const int64_t offset = micro_.offset(k);
    micro_.counts[size_t(k - 1)] += request_.prompts ? length - offset : std::count(first + offset, last, answer_kind);
  }
}

MicroBatch BatchRows::finish() {
  const bool copies_documents = micro_.documents.defined() && request_.device.is_cuda();
  const Tensor ends = copies_documents ? document_ends(micro_.documents.begins, micro_.batch.kind) : Tensor();
  micro_.batch = on_device(micro_.batch, request_.device);
  for (auto& [name, of_tokens] : micro_.signals) {
    if (!request_.device.is_cuda()) break;
    const Tensor staged = at::empty(of_tokens.sizes(), of_tokens.options().pinned_memory(true));
    of_tokens = staged.copy_(of_tokens).to(request_.device, /*non_blocking=*/true);
  }
  if (std::ranges::count(request_.signals, Signal::data_bytes) > 0) {
    const Tensor& tokens = micro_.batch.tokens;
    micro_.signals[to_text(Signal::data_bytes)] =
        request_.token_bytes.index_select(0, tokens.flatten()).view_as(tokens);
  }
  micro_.targets = request_.prompts ? micro_.batch.kind.gt(0) : micro_.batch.kind.eq(answer_kind);
  if (copies_documents) {
    const Tensor begins = micro_.documents.begins, both = at::cat({begins.flatten(), ends});
    const Tensor staged = at::empty(both.sizes(), both.options().pinned_memory(true));
    micro_.documents =
        documents_in(staged.copy_(both).to(request_.device, /*non_blocking=*/true), begins.size(0), begins.size(1));
  }
  return std::move(micro_);
}

Tensor document_ends(const Tensor& begins, const Tensor& kinds) {
  const int32_t* const begin = begins.const_data_ptr<int32_t>();
  const uint8_t* const kind = kinds.const_data_ptr<uint8_t>();
  const int64_t S = begins.size(1);
  std::vector<int32_t> ends;
  for (int64_t i = 0; i < begins.numel(); ++i) {
    const bool goes_on = i % S > 0 && (begin[i] != i % S || (kind[i] == 0 && kind[i - 1] == 0));
    if (!goes_on) ends.push_back(int32_t(i));
  }
  ends.push_back(int32_t(begins.numel()));
  return at::tensor(ends, at::kInt);
}

}  // namespace wmtp
