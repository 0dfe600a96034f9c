#include "inference/decode.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#include "base/time_use.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using Logits = CachedModel::Logits;

/// The text of one request, which grows token by token.
class GeneratedText {
 public:
  GeneratedText(const DecodeRequest& request, int64_t positions) : request_(request), positions_(positions) {}

  /// The next token according to logits [V]. Safe to call from several threads for different texts.
  int64_t choice(const Tensor& logits) const {
    const auto position = int64_t(request_.prompt.size() + decoded_.ids.size());
    return request_.sampling.temperature == 0 ? most_likely(logits) : draw(logits, request_.sampling, position);
  }

  void append(int64_t id) {
    decoded_.ids.push_back(id);
    stopped_ = !request_.on_token(id);
  }

  bool ended() {
    if (std::ranges::find(request_.ends, decoded_.ids.back()) != request_.ends.end())
      decoded_.end = Decoded::End::end_of_text;
    else if (int64_t(decoded_.ids.size()) == request_.max_tokens)
      decoded_.end = Decoded::End::max_tokens;
    else if (int64_t(request_.prompt.size() + decoded_.ids.size()) > positions_)
      decoded_.end = Decoded::End::positions;
    else if (stopped_)
      decoded_.end = Decoded::End::stopped;
    else
      return false;
    return true;
  }

  int64_t last() const { return decoded_.ids.back(); }
  int64_t missing() const { return request_.max_tokens - int64_t(decoded_.ids.size()); }
  Decoded& decoded() { return decoded_; }

 private:
  const DecodeRequest& request_;
  int64_t positions_;
  Decoded decoded_;
  bool stopped_ = false;
};

class Decoding {
 public:
  Decoding(CachedModel& model, const DecodeRequest& request)
      : model_(model), request_(request), text_(request, model.positions()) {}

  Decoded run() {
    text_.append(text_.choice(feed(request_.prompt, Logits::last_token)[0]));
    while (!text_.ended()) {
      const bool drafts = policy_.wants_drafts();
      if (policy_.has_ended()) model_.stop_proposing();
      const auto begun = std::chrono::steady_clock::now();
      const std::vector<int64_t> fed = next_tokens(drafts);
      const int64_t before = model_.length();
      const Tensor logits = feed(fed, Logits::all_tokens);
      const double seconds = seconds_since(begun);
      size_t accepted = 0;  // fed[0] is head 1's own choice
      do {
        text_.append(text_.choice(logits[int64_t(accepted++)]));
      } while (!text_.ended() && accepted < fed.size() && fed[accepted] == text_.last());
      model_.shorten(before + int64_t(accepted));
      policy_.record_pass(seconds, int64_t(accepted), drafts);
      if (drafts) ++text_.decoded().drafted;
    }
    return std::move(text_.decoded());
  }

 private:
  Tensor feed(const std::vector<int64_t>& ids, Logits logits) {
    ++text_.decoded().forwards;
    return model_.feed(ids, logits);
  }

  /// The newest token and, with drafts, the proposals after it.
  std::vector<int64_t> next_tokens(bool drafts) {
    std::vector<int64_t> ids{text_.last()};
    if (!drafts) return ids;
    const std::vector<int64_t> proposed = model_.propose(text_.last());
    const int64_t room = model_.positions() - model_.length();
    const int64_t most = std::min({text_.missing() - 1, room - 1, int64_t(proposed.size())});
    ids.insert(ids.end(), proposed.begin(), proposed.begin() + most);
    return ids;
  }

  CachedModel& model_;
  const DecodeRequest& request_;
  GeneratedText text_;
  DraftPolicy policy_{request_.drafts};
};

class BatchDecoding {
 public:
  BatchDecoding(CachedModel& model, const std::vector<DecodeRequest>& requests, const std::function<void()>& on_decoded)
      : model_(model),
        requests_(requests),
        on_decoded_(on_decoded),
        all_(requests.size()),
        prompt_text_(model.num_texts() - 1) {
    for (int64_t text = 0; text < prompt_text_; ++text) free_.push_back(text);
  }

  std::vector<Decoded> run() {
    while (next_ < requests_.size() || !running_.empty()) {
      while (next_ < requests_.size() && !free_.empty()) begin_next();
      extend_all();
    }
    return std::move(all_);
  }

 private:
  struct Running {
    size_t request;
    int64_t text;  ///< of the model
    GeneratedText generated;
  };

  void begin_next() {
    const size_t number = next_++;
    const DecodeRequest& request = requests_[number];
    if (number == 0 || request.prompt != requests_[number - 1].prompt) {
      model_.shorten(0, prompt_text_);
      after_prompt_ = model_.feed({{prompt_text_, request.prompt}})[0];
    }
    Running one{number, free_.back(), GeneratedText(request, model_.positions())};
    one.generated.append(one.generated.choice(after_prompt_));
    if (has_ended(one)) return;
    free_.pop_back();
    model_.copy_text(prompt_text_, one.text, int64_t(request.prompt.size()));
    running_.push_back(std::move(one));
  }

  /// One token more for each text.
  void extend_all() {
    if (running_.empty()) return;
    std::vector<CachedModel::Portion> portions;
    for (const Running& one : running_) portions.push_back({one.text, {one.generated.last()}});
    const Tensor logits = model_.feed(portions);
    std::vector<int64_t> ids(running_.size());
    at::parallel_for(0, int64_t(ids.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ids[size_t(i)] = running_[size_t(i)].generated.choice(logits[i]);
    });
    for (size_t i = 0; i < ids.size(); ++i) running_[i].generated.append(ids[i]);
    std::vector<Running> still;
    for (Running& one : running_)
      if (has_ended(one))
        free_.push_back(one.text);
      else
        still.push_back(std::move(one));
    running_.swap(still);
  }

  bool has_ended(Running& one) {
    if (!one.generated.ended()) return false;
    all_[one.request] = std::move(one.generated.decoded());
    on_decoded_();
    return true;
  }

  CachedModel& model_;
  const std::vector<DecodeRequest>& requests_;
  const std::function<void()>& on_decoded_;
  std::vector<Decoded> all_;
  std::vector<Running> running_;
  std::vector<int64_t> free_;  ///< texts of the model
  size_t next_ = 0;            ///< request
  int64_t prompt_text_;        ///< the text that holds the newest prompt
  Tensor after_prompt_;        ///< logits [V]
};

}  // namespace

Decoded decode(CachedModel& model, const DecodeRequest& request) { return Decoding(model, request).run(); }

std::vector<Decoded> decode_all(CachedModel& model, const std::vector<DecodeRequest>& requests,
                                const std::function<void()>& on_decoded) {
  return BatchDecoding(model, requests, on_decoded).run();
}

}  // namespace wmtp
