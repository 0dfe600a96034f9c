// `weigh`: which validation tokens of a finished model weightings would pick, without training.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <set>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "evaluate/token_weighing.hpp"
#include "evaluate/weight_shares.hpp"
#include "report/table.hpp"
#include "report/weight_text.hpp"

namespace wmtp {
namespace {

constexpr const char* weigh_help =
    "show which validation tokens of a model a weighting would pick, without training\n\n"
    "Of each FILE, an experiment or a part of one, [pipeline], [reference], [references] and [value] are read; data,\n"
    "batches and precision are those of the model's run. A model that no run of the log has saved needs whole\n"
    "experiments.\n\n"
    "The weightings are called with the batches of all ranks of that run, at the step of the model, with an empty\n"
    "state. A group's effective share is (sum w)^2 / (n sum w^2): 1 for equal weights, k if a share k of its tokens\n"
    "has weight 1 and the others 0. Kinds of tokens are of all heads together. The weight that two weightings have in\n"
    "common is sum min(a, b), both scaled to sum 1; the correlation is that of the ranks of the weights.\n\n"
    "examples:\n"
    "  wmtp-host weigh baseline --pipeline experiments/rho1.toml --pipeline experiments/weightings/entropy.toml\n"
    "  wmtp-host weigh baseline@100 --pipeline formula.toml --set 'pipeline.weight=\"exp(-ce)\"' --show 2\n"
    "  wmtp-host weigh rho1 --pipeline experiments/rho1.toml --set pipeline.keep=0.3 --json\n";

struct Options {
  std::string run;
  std::vector<std::string> files, overrides;
  int64_t show = 0, head = 1;
  bool json = false;
};

/// The columns of WeightShare after the group, in its order.
constexpr const char* share_columns[] = {"tokens",     "token_share", "weight_share",  "effective_share",
                                         "zero_share", "loss",        "weighted_loss", "zero_loss"};

Row share_cells(const WeightShare& share) {
  return {share.tokens,     share.token_share, share.weight_share,  share.effective_share,
          share.zero_share, share.loss,        share.weighted_loss, share.zero_loss};
}

Table share_table(const Weighing& weighing) {
  Table table{{"weighting", "group"}, {}, false};
  table.columns.insert(table.columns.end(), std::begin(share_columns), std::end(share_columns));
  for (size_t i = 0; i < weighing.names.size(); ++i)
    for (const WeightShare& share : weight_shares(weighing.tokens[i])) {
      Row& row = table.rows.emplace_back(Row{weighing.names[i], share.group});
      std::ranges::move(share_cells(share), std::back_inserter(row));
    }
  return table;
}

Table overlap_table(const Weighing& weighing) {
  Table table{{"weighting", "other", "group", "common", "rank_correlation"}, {}, false};
  for (size_t a = 0; a < weighing.names.size(); ++a)
    for (size_t b = a + 1; b < weighing.names.size(); ++b)
      for (const WeightOverlap& overlap : weight_overlaps(weighing.tokens[a], weighing.tokens[b]))
        table.rows.push_back(
            {weighing.names[a], weighing.names[b], overlap.group, overlap.common, overlap.rank_correlation});
  return table;
}

OrderedJson objects(const Table& table) {
  OrderedJson list = OrderedJson::array();
  for (size_t row = 0; row < table.rows.size(); ++row) list.push_back(row_object(table, row));
  return list;
}

/// The first tokens of the validation data that belong to `sequences` of it.
size_t tokens_shown(const WeighedTokens& tokens, int64_t sequences) {
  size_t end = 0;
  int64_t seen = 0;
  for (; end < tokens.token.size(); ++end) {
    if (end == 0 || tokens.sequence[end] != tokens.sequence[end - 1]) ++seen;
    if (seen > sequences) break;
  }
  return end;
}

OrderedJson number_or_null(float value) { return std::isnan(value) ? OrderedJson() : OrderedJson(value); }

/// One object per token and head, as in the log's `samples`, with the weights in the order of the weightings.
OrderedJson token_objects(const Weighing& weighing, int64_t sequences) {
  OrderedJson list = OrderedJson::array();
  const WeighedTokens& first = weighing.tokens.front();
  const auto heads = size_t(first.heads);
  for (size_t i = 0; i < tokens_shown(first, sequences); ++i)
    for (size_t k = 0; k < heads; ++k) {
      OrderedJson one{
          {"sequence", first.sequence[i]}, {"position", first.position[i]}, {"head", k + 1},
          {"token_id", first.token[i]},    {"text", first.shown[i]},        {"weights", OrderedJson::array()}};
      OrderedJson loss;
      for (const WeighedTokens& tokens : weighing.tokens) {
        one["weights"].push_back(number_or_null(tokens.weight[i * heads + k]));
        if (loss.is_null()) loss = number_or_null(tokens.loss[i * heads + k]);
      }
      one["loss"] = loss;
      list.push_back(std::move(one));
    }
  return list;
}

void print_json(const Weighing& weighing, const Options& options) {
  const WeighedTokens& first = weighing.tokens.front();
  OrderedJson json{{"model", weighing.model},
                   {"step", first.step},
                   {"sequences", std::set(first.sequence.begin(), first.sequence.end()).size()},
                   {"shares", objects(share_table(weighing))},
                   {"overlaps", objects(overlap_table(weighing))}};
  if (options.show > 0) json["tokens"] = token_objects(weighing, options.show);
  std::cout << dumped(json, 1) << '\n';
}

/// The sequences to show, with the weights of one head below their text.
void print_texts(const Weighing& weighing, const Options& options) {
  const WeighedTokens& first = weighing.tokens.front();
  const size_t end = tokens_shown(first, options.show);
  for (size_t begin = 0; begin < end;) {
    size_t next = begin;
    while (next < end && first.sequence[next] == first.sequence[begin]) ++next;
    std::cout << "\nsequence " << first.sequence[begin] << ", head " << options.head << '\n';
    WeightText text{.names = weighing.names, .tokens = {}, .weights = {}};
    for (size_t i = begin; i < next; ++i) text.tokens.push_back(first.text[i].empty() ? first.shown[i] : first.text[i]);
    for (const WeighedTokens& tokens : weighing.tokens) {
      std::vector<float>& weights = text.weights.emplace_back();
      for (size_t i = begin; i < next; ++i)
        weights.push_back(tokens.weight[i * size_t(tokens.heads) + size_t(options.head - 1)]);
    }
    print_weight_text(std::cout, text);
    begin = next;
  }
}

void print_text(const Weighing& weighing, const Options& options) {
  const WeighedTokens& first = weighing.tokens.front();
  std::cout << weighing.model << ", step " << with_thousands(first.step) << ": "
            << counted(int64_t(first.token.size()), "token") << " in "
            << counted(int64_t(std::set(first.sequence.begin(), first.sequence.end()).size()), "validation sequence")
            << "\n\n";
  print_table(std::cout, share_table(weighing), TableFormat::text);
  if (weighing.names.size() > 1) {
    std::cout << '\n';
    print_table(std::cout, overlap_table(weighing), TableFormat::text);
  }
  print_texts(weighing, options);
}

int weigh(const Options& options, const GlobalOptions& globals) {
  const Weighing weighing = weigh_validation(options.run, options.files, options.overrides,
                                             globals.database_or(default_database), globals.plugin_folders);
  if (const int64_t heads = weighing.tokens.front().heads; options.head > heads)
    throw Error(ExitStatus::usage,
                "--head " + std::to_string(options.head) + ": the model has " + counted(heads, "head"));
  options.json ? print_json(weighing, options) : print_text(weighing, options);
  return 0;
}

}  // namespace

void add_weigh(CommandLine& line) {
  auto [weigh_command, options] = line.add("weigh", weigh_help, weigh);
  add_option(weigh_command, "RUN", options.run, model_argument, required);
  add_option(weigh_command, "--pipeline FILE", options.files, "experiment with a weighting; may be repeated", required,
             repeatable);
  add_set(weigh_command, options.overrides);
  add_option(weigh_command, "--show N", options.show, "show the weights in the texts of the first N sequences",
             CLI::Range(int64_t{0}, int64_t{1} << 30));
  add_option(weigh_command, "--head K", options.head, "head whose weights --show shows", shows_default,
             CLI::Range(int64_t{1}, int64_t{1} << 20));
  weigh_command.add_flag("--json", options.json, "print JSON");
}

}  // namespace wmtp
