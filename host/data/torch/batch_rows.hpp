// Fills the rows of a micro-batch on the CPU, document by document. Positions that are not filled are padding.
#pragma once

#include <cstdint>
#include <vector>

#include "data/torch/batches.hpp"

namespace wmtp {

class BatchRows {
 public:
  /// A rank's rows of `sequences` (as BatchSource::fetch), of S tokens each. `separate`: whether a row may have several
  /// documents.
  BatchRows(const std::vector<int64_t>& sequences, int64_t rank, int64_t world, int64_t S, const BatchRequest& request,
            bool separate);

  MicroBatch& micro() { return micro_; }
  int64_t count() const { return micro_.batch.tokens.size(0); }
  /// [S]: the ids of a row.
  int64_t* ids(int64_t row);
  /// [S]: the kinds of its tokens.
  uint8_t* kinds(int64_t row);
  /// [S]: a signal of the data of a row's tokens.
  float* signal(Signal signal, int64_t row);
  /// Counts a document at position `begin` of a row, whose kinds are set.
  void add_document(int64_t row, int64_t begin, int64_t length);
  /// The micro-batch on its device.
  MicroBatch finish();

 private:
  MicroBatch micro_;
  const BatchRequest& request_;
};

/// Documents::ends, from its `begins` and the kinds of tokens, [B,S] on the CPU.
at::Tensor document_ends(const at::Tensor& begins, const at::Tensor& kinds);

}  // namespace wmtp
