#include "engine/inference/decode.hpp"

#include <algorithm>

namespace wmtp {
namespace {

using at::Tensor;
using Logits = CachedModel::Logits;

class Decoding {
 public:
  Decoding(CachedModel& model, const DecodeRequest& request) : model_(model), request_(request) {}

  Decoded run() {
    choose(feed(request_.prompt, Logits::of_last)[0]);
    while (!ended()) {
      const std::vector<int64_t> fed = next_tokens();
      const int64_t before = model_.length();
      const Tensor logits = feed(fed, Logits::of_all);
      size_t accepted = 0;  // fed[0] is head 1's own choice
      do {
        choose(logits[int64_t(accepted++)]);
      } while (!ended() && accepted < fed.size() && fed[accepted] == decoded_.ids.back());
      model_.shorten(before + int64_t(accepted));
    }
    return std::move(decoded_);
  }

 private:
  Tensor feed(const std::vector<int64_t>& ids, Logits logits) {
    ++decoded_.forwards;
    return model_.feed(ids, logits);
  }

  /// The newest token and the proposals after it.
  std::vector<int64_t> next_tokens() {
    std::vector<int64_t> ids{decoded_.ids.back()};
    if (!request_.drafts) return ids;
    const std::vector<int64_t> proposed = model_.propose(decoded_.ids.back());
    const int64_t wanted = request_.max_tokens - int64_t(decoded_.ids.size());
    const int64_t room = model_.positions() - model_.length();
    const int64_t most = std::min({wanted - 1, room - 1, int64_t(proposed.size())});
    ids.insert(ids.end(), proposed.begin(), proposed.begin() + most);
    return ids;
  }

  void choose(const Tensor& logits) {
    const auto position = int64_t(request_.prompt.size() + decoded_.ids.size());
    const bool greedy = request_.sampling.temperature == 0;
    decoded_.ids.push_back(greedy ? most_likely(logits) : draw(logits, request_.sampling, position));
    stopped_ = !request_.take(decoded_.ids.back());
  }

  bool ended() {
    if (decoded_.ids.back() == request_.end_of_text)
      decoded_.end = Decoded::End::end_of_text;
    else if (int64_t(decoded_.ids.size()) == request_.max_tokens)
      decoded_.end = Decoded::End::max_tokens;
    else if (int64_t(request_.prompt.size() + decoded_.ids.size()) > model_.positions())
      decoded_.end = Decoded::End::positions;
    else if (stopped_)
      decoded_.end = Decoded::End::stopped;
    else
      return false;
    return true;
  }

  CachedModel& model_;
  const DecodeRequest& request_;
  Decoded decoded_;
  bool stopped_ = false;
};

}  // namespace

Decoded decode(CachedModel& model, const DecodeRequest& request) { return Decoding(model, request).run(); }

}  // namespace wmtp
