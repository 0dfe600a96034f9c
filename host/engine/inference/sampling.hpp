// Drawing a token from a model's logits: temperature, then the nucleus (Holtzman et al., "The curious case of neural
// text degeneration", ICLR 2020). A draw follows from (seed, prompt, sample, position) alone: a seed gives the same texts
// again, and what differs in one of them is drawn independently.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace wmtp {

struct Sampling {
  double temperature = 0;  ///< 0: the most likely token, nothing is drawn
  double top_p = 1;        ///< in (0,1]
  uint64_t seed = 0;
  uint32_t prompt = 0, sample = 0;  ///< which of several prompts, and which of its answers
};

struct Candidate {
  int64_t id = 0;
  double share = 0;
};

/// The fewest most likely ids whose shares of softmax(logits / temperature) sum to top_p or more, likeliest first (of
/// equal ones the lowest id), their shares scaled to sum to 1. logits [V] fp32; temperature above 0. Error(data) where
/// a logit is not finite.
std::vector<Candidate> nucleus(const at::Tensor& logits, double temperature, double top_p);

/// The token at `position` of a text, from the logits [V] before it.
int64_t draw(const at::Tensor& logits, const Sampling& sampling, int64_t position);

}  // namespace wmtp
