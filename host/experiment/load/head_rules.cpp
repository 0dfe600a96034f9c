// Rules of the heads that predict tokens: the weights of their losses, what they train, and what is logged about them.
#include <algorithm>
#include <functional>

#include "base/text.hpp"
#include "experiment/load/rules.hpp"

namespace wmtp {
namespace {

class HeadRules : RuleChecker {
 public:
  HeadRules(const BoundExperiment& bound, Diagnostics& diagnostics) : RuleChecker(bound, diagnostics) {}

  void all(const PluginNeeds* needs) {
    future_offsets();
    head_weights(needs);
    detached_heads(needs);
    head_gradients(needs);
    auxiliary_loss(needs);
  }

 private:
  void future_offsets() {
    const std::string key = "model.future_offsets";
    const std::vector<int64_t>& offsets = e_.model.future_offsets;
    if (offsets.empty() || !bound_.all_valid({key.c_str(), "model.future_tokens", "model.future_heads"})) return;
    const auto count = int64_t(offsets.size());
    const auto falls = std::adjacent_find(offsets.begin(), offsets.end(), std::greater_equal<>());
    if (count != e_.model.future_tokens) {
      refuse(key, "found " + number(count) + " future_offsets for " + number(e_.model.future_tokens) +
                      " future_tokens, wanted one for each");
    } else if (offsets.front() != 1) {
      refuse(key, "found " + number(offsets.front()) + " as the first of future_offsets, wanted 1",
             "head 1 predicts the next token");
    } else if (falls != offsets.end()) {
      refuse(key,
             "found " + number(falls[1]) + " after " + number(falls[0]) + " in future_offsets, wanted rising numbers",
             "each head predicts a token after that of the head before it");
    } else if (has_chained_heads(e_.model)) {
      refuse(key,
             "found future_offsets " + offsets_text(offsets, count) + " for " + to_string(e_.model.future_heads) +
                 " heads, wanted " + offsets_text({}, count) +
                 ": each of these heads reads the token before the one that it predicts, which the head before it "
                 "predicts",
             "remove it, or set future_heads = \"parallel\"");
    }
  }

  void head_weights(const PluginNeeds* needs) {
    const std::string key = "train.head_weights";
    if (!bound_.has(key) || !bound_.all_valid({key.c_str()})) return;
    if (needs && !needs->when) {
      refuse_key(key, "head_weights has no effect: " + title() + " trains no head that predicts tokens", "remove it");
      return;
    }
    std::vector<HeadWeightsPoint> points = e_.train.head_weights_later;
    if (points.empty()) points.push_back({1, e_.train.head_weights});
    const bool knows_heads = bound_.all_valid({"model.future_tokens"});
    for (size_t i = 0; i < points.size(); ++i) {
      const std::vector<double>& weights = points[i].weights;
      const std::string at = points.size() > 1 ? " at step " + number(points[i].step) : "";
      if (knows_heads && int64_t(weights.size()) != e_.model.future_tokens) {
        refuse(key, "found " + number(int64_t(weights.size())) + " head_weights" + at + " for " +
                        number(e_.model.future_tokens) + " future_tokens, wanted one for each");
      } else if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) {
        refuse(key, "head_weights" + at + " are all 0, so no head would train",
               "set a weight above 0 for each head to train");
      }
      if (i > 0 && points[i].step < points[i - 1].step)
        refuse(key,
               "found step " + number(points[i].step) + " of head_weights after step " + number(points[i - 1].step),
               "list the points in the order of their steps");
      else if (i > 0 && e_.train.steps > 0 && points[i - 1].step >= e_.train.steps && points[i].step > e_.train.steps)
        refuse(key,
               "head_weights at step " + number(points[i].step) + " have no effect: the run ends at step " +
                   number(e_.train.steps),
               "remove the point, or train longer");
      if (i > 1 && points[i].step == points[i - 2].step)
        refuse(key, "found three head_weights at step " + number(points[i].step),
               "keep two, the weights before and after the jump");
    }
  }

  void detached_heads(const PluginNeeds* needs) {
    const std::string key = "train.detach_heads";
    if (!bound_.all_valid({key.c_str()}) || !e_.train.detach_heads) return;
    if (needs && !needs->when)
      refuse_key(key, "detach_heads has no effect: " + title() + " trains no head that predicts tokens", "remove it");
    else if (bound_.all_valid({"model.future_tokens"}) && e_.model.future_tokens == 1)
      refuse_key(key, "detach_heads has no effect: found 1 future_tokens, wanted 2 or more", "remove it");
    else if (needs && std::ranges::count(needs->reads, "policy.alignment") > 0)
      refuse_key(key,
                 title() + " reads policy.alignment, how the gradients that heads send to the trunk align with head " +
                     "1's; with detach_heads only head 1 sends one",
                 "remove it, or choose weights without alignment");
  }

  void auxiliary_loss(const PluginNeeds* needs) {
    if (e_.auxiliary_loss && needs && !needs->when)
      refuse_key("auxiliary_loss",
                 "[auxiliary_loss] has no effect: " + title() + " trains no head that predicts tokens",
                 "remove the table");
  }

  void head_gradients(const PluginNeeds* needs) {
    const std::string key = "log.heads_every_steps";
    const int64_t every = e_.log.head_gradients_every, logged = e_.log.every_steps;
    if (!bound_.all_valid({"log", key.c_str(), "log.every_steps"}) || every == 0) return;
    if (needs && !needs->when) {
      refuse_key(key, "heads_every_steps has no effect: " + title() + " trains no head that predicts tokens",
                 "remove it");
    } else if (bound_.all_valid({"train.detach_heads"}) && e_.train.detach_heads) {
      refuse_key(key,
                 "heads_every_steps has no effect with train.detach_heads, which lets only head 1 send a gradient "
                 "to the trunk",
                 "remove one of them");
    } else if (every % logged != 0) {
      refuse(key, "found " + number(every) + ", which is not a multiple of every_steps = " + number(logged) +
                      ", so that steps would be compared and not logged");
    }
  }
};

}  // namespace

void check_head_rules(const BoundExperiment& bound, const PluginNeeds* needs, Diagnostics& diagnostics) {
  HeadRules(bound, diagnostics).all(needs);
}

}  // namespace wmtp
