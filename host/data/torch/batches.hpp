// Micro-batches as tensors, with counts of their tokens and targets. The sequence at a position of the run's order
// depends only on the experiment, so a step's content depends neither on the number of ranks nor on accumulation; each
// rank reads only its own sequences.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <wmtp/step.hpp>

#include "data/records/records.hpp"
#include "data/tokens/token_windows.hpp"
#include "data/window_order.hpp"
#include "experiment/model_config.hpp"
#include "model/torch/attention.hpp"

namespace wmtp {

/// One rank's part of a micro-batch: B sequences of S tokens. S may be less than sequence_length, and is the same on
/// every rank. Counts are for this rank only.
struct MicroBatch {
  Batch batch;
  at::Tensor targets;   ///< [B,S] bool: tokens to predict
  Documents documents;  ///< undefined: each row is one
  /// The signals of the data that BatchRequest asks for, by name: of the token at each position, [B,S] fp32.
  std::map<std::string, at::Tensor> signals = {};
  std::vector<int64_t> offsets;    ///< ModelConfig::future_offsets
  std::vector<int64_t> counts;     ///< [H] valid targets of each head
  int64_t tokens = 0;              ///< excluding padding
  int64_t attended_keys = 0;       ///< sum over tokens of the length of their document, at most BatchRequest::window
  int64_t answer_tokens = 0;       ///< of kind "answer"
  int64_t pairs = 0;               ///< pairs of right and wrong answers in adjacent rows
  std::vector<int64_t> sequences;  ///< the index of each in the run's order; -1: padding
  std::vector<int64_t> windows;    ///< window, record or pack of each sequence in the data; -1: padding
  std::vector<int64_t> bins;       ///< difficulty bin of each sequence, an index into BatchSource::bins(); -1: none

  /// The number of positions from a head's source to its target.
  int64_t offset(int64_t head) const { return future_offset(offsets, head); }
  /// [B,S] bool: whether a head has a target at each source position: one to predict, in the same document.
  at::Tensor sources(int64_t head) const { return sources_of(offset(head)); }
  /// The same of the token `offset` positions after each.
  at::Tensor sources_of(int64_t offset) const;
};

class BatchSource {
 public:
  explicit BatchSource(int64_t batch_size) : batch_size_(batch_size) {}
  virtual ~BatchSource() = default;

  /// Sequences per epoch; INT64_MAX for unlimited data.
  virtual int64_t count() const = 0;
  /// One more than the largest number in MicroBatch::windows; INT64_MAX for unlimited data.
  virtual int64_t windows() const { return count(); }
  /// `sequences`: their indices in the run's order, of all ranks in this micro-batch, rank by rank, the same number for
  /// each; -1 gives a sequence of padding.
  virtual MicroBatch fetch(const std::vector<int64_t>& sequences, int64_t rank, int64_t world) const = 0;
  /// Names of the difficulty bins, if any.
  virtual std::vector<std::string> bins() const { return {}; }

  /// A rank's part of the micro-batch that begins at position `first` of the run's order.
  MicroBatch training(int64_t first, int64_t rank, int64_t world) const;
  /// The same in the source's order, with padding from position `end` on, so that each sequence is read only once.
  MicroBatch held_out(int64_t first, int64_t end, int64_t rank, int64_t world) const;

 private:
  int64_t batch_size_;
};

/// What a pipeline requires of its batches.
struct BatchRequest {
  int64_t heads = 1;                  ///< H of MicroBatch::counts
  std::vector<int64_t> offsets = {};  ///< ModelConfig::future_offsets
  bool prompts = false;               ///< prompt tokens are also targets
  bool pairs = false;
  int64_t parts = 1;                 ///< into which ranks divide the positions, each of at least last_offset()
  int64_t window = 0;                ///< of the model's attention, for MicroBatch::attended_keys; 0: none
  std::vector<Signal> signals = {};  ///< of the data
  at::Tensor token_bytes = {};       ///< [vocabulary] fp32, on the device, for Signal::data_bytes
  at::Device device = at::kCPU;

  /// That of the last head; 0 without heads.
  int64_t last_offset() const { return heads == 0 ? 0 : future_offset(offsets, heads); }
};

/// Windows of text, of a token file, or of random ids: every token is an answer. `windows` must outlive the source.
/// With `end_of_text`, documents are separate and end with that id; without, each window is one document.
std::unique_ptr<BatchSource> window_batches(const TokenWindows& windows, WindowOrder order, int64_t batch_size,
                                            int64_t sequence_length, const BatchRequest& request,
                                            std::optional<int64_t> end_of_text = std::nullopt);

/// B sequences of S tokens, in the form in which batches are on the device.
Batch empty_batch(int64_t B, int64_t S, const at::Device& device);

/// Views of [B*S+n+1] int32: `begins`, then the ends of n documents.
Documents documents_in(const at::Tensor& both, int64_t B, int64_t S);

/// Copies `batch` from the CPU to the device in one asynchronous copy.
Batch on_device(const Batch& batch, const at::Device& device);

/// [B,S] bool: whether `targets` has the position `offset` after each, in the same document (Documents::begins).
at::Tensor valid_sources(const at::Tensor& targets, int64_t offset, const at::Tensor& begins = {});

}  // namespace wmtp
