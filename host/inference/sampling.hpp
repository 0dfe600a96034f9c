// Draws a token from a model's logits: temperature, then the nucleus (Holtzman et al., "The curious case of neural text
// degeneration", ICLR 2020). A draw depends only on (seed, prompt, sample, position): the same seed gives the same
// texts, and draws that differ in one of the four are independent.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace wmtp {

struct Sampling {
  double temperature = 0;  ///< 0: the most likely token, without a draw
  double top_p = 1;        ///< in (0,1]
  uint64_t seed = 0;
  uint32_t prompt = 0, sample = 0;  ///< index of the prompt and of its answer
};

struct Candidate {
  int64_t id = 0;
  double probability = 0;
};

/// The smallest set of most likely ids whose shares of softmax(logits / temperature) sum to at least top_p, most likely
/// first (ties: lowest id first), with the shares rescaled to sum to 1. logits [V] fp32; temperature above 0.
/// Error(data) if a logit is not finite.
std::vector<Candidate> nucleus(const at::Tensor& logits, double temperature, double top_p);

/// The token at `position` of a text, from the logits [V] before it.
int64_t draw(const at::Tensor& logits, const Sampling& sampling, int64_t position);

}  // namespace wmtp
