#include "cli/eval_text.hpp"

#include <cmath>
#include <iostream>

#include "report/table.hpp"
#include "run/generation.hpp"

namespace wmtp {

int evaluate_text(const std::string& run, const std::vector<std::string>& texts, bool json,
                  const std::filesystem::path& database) {
  PerplexityRequest request;
  request.model = find_model(run, database).folder;
  request.texts.assign(texts.begin(), texts.end());
  Table table{{"head", "tokens", "loss", "perplexity"}, {}, false};
  int64_t number = 0;
  for (const HeadLoss& head : perplexity_with_engine(request))
    table.rows.push_back({++number, head.tokens, head.loss, std::exp(head.loss)});
  print_table(std::cout, table, json ? TableFormat::json : TableFormat::text);
  return 0;
}

}  // namespace wmtp
