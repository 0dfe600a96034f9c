#include "data/arithmetic/arithmetic.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/json.hpp"
#include "data/arithmetic/derivation.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

// An independent evaluator: parses the text and computes with integers that are reduced at the end.
class Evaluator {
 public:
  using Terms = std::vector<int64_t>;
  explicit Evaluator(std::string text) : text_(std::move(text)) {}

  std::string answer() {
    const Terms value = expression();
    EXPECT_EQ(at_, text_.size()) << text_;
    std::string digits;
    for (size_t k = 0; k < 5; ++k) digits += char('0' + (k < value.size() ? (value[k] % 7 + 7) % 7 : 0));
    return digits;
  }

 private:
  bool take(char wanted) { return at_ < text_.size() && text_[at_] == wanted && ++at_; }
  static Terms cut(Terms terms) {
    terms.resize(5);
    for (int64_t& term : terms) term %= 7;
    return terms;
  }
  static Terms product(const Terms& a, const Terms& b) {
    Terms result(a.size() + b.size());
    for (size_t i = 0; i < a.size(); ++i)
      for (size_t j = 0; j < b.size(); ++j) result[i + j] += a[i] * b[j];
    return cut(result);
  }
  Terms operand() {
    if (take('-')) {
      Terms value = operand();
      for (int64_t& term : value) term = -term;
      return value;
    }
    if (take('(')) {
      Terms value = expression();
      EXPECT_TRUE(take(')')) << text_;
      return value;
    }
    Terms value;
    for (int k = 0; k < 5; ++k) value.push_back(text_.at(at_++) - '0');
    return value;
  }
  Terms expression() {
    const Terms left = operand();
    for (const char operation : {'+', '*', '@'}) {
      if (!take(operation)) continue;
      const Terms right = operand();
      if (operation == '*') return product(left, right);
      Terms result(5), power{1};
      if (operation == '+') {
        for (size_t k = 0; k < 5; ++k) result[k] = left[k] + right[k];
        return cut(result);
      }
      for (size_t k = 0; k < 5; ++k, power = product(power, right))
        for (size_t i = 0; i < power.size(); ++i) result[i] += left[k] * power[i];
      return cut(result);
    }
    return left;
  }

  std::string text_;
  size_t at_ = 0;
};

std::string answer_in(const std::string& output) { return output.substr(output.rfind('#') + 1); }

class Arithmetic : public DataTest {
 protected:
  std::string made(const ArithmeticConfig& config) const {
    write_arithmetic(config, at("made.jsonl"));
    return read(at("made.jsonl"));
  }
  std::vector<Json> records(const ArithmeticConfig& config) const {
    std::vector<Json> found;
    std::istringstream lines(made(config));
    for (std::string line; std::getline(lines, line);) found.push_back(Json::parse(line));
    return found;
  }
  static ArithmeticConfig config(int64_t problems) {
    ArithmeticConfig config;
    config.problems = problems;
    return config;
  }
};

TEST_F(Arithmetic, LabelsAnAnswerByTheValueOfTheExpression) {
  for (const bool steps : {true, false}) {
    ArithmeticConfig asked = config(1500);
    asked.steps = steps;
    asked.answers_wrong = 2;
    const auto all = records(asked);
    ASSERT_EQ(all.size(), 4500u);
    for (const Json& record : all) {
      const std::string expression = record["instruction"];
      EXPECT_EQ(Evaluator(expression).answer() == answer_in(record["output"]), record["is_correct"].get<bool>())
          << record;
    }
  }
}

TEST_F(Arithmetic, WritesEveryOperationOfARightAnswerCorrectly) {
  for (const Json& record : records(config(300))) {
    if (!record["is_correct"]) continue;
    std::istringstream lines(record["output"].get<std::string>());
    for (std::string line; std::getline(lines, line);) {
      const size_t equals = line.find('=');
      if (equals == std::string::npos) continue;
      EXPECT_EQ(Evaluator(line.substr(0, equals)).answer(), line.substr(line.rfind('=') + 1)) << record;
    }
  }
}

TEST_F(Arithmetic, WritesAProductTermByTerm) {
  Expression product;
  product.operation = '*';
  product.left = std::make_unique<Expression>();
  product.right = std::make_unique<Expression>();
  product.left->value = {3, 1, 4};
  product.right->value = {2, 0, 0, 1};
  // 3*2=6; 3*0=0, 1*2=2, 0+2=2; 3*0=0, 1*0=0, 0+0=0, 4*2=1, 0+1=1; ...
  EXPECT_EQ(derive(product, true, nullptr).text,
            "31400*20010=326,3001222,30010004211,313100340030203,3001111400100010201=62131\n#62131");
  EXPECT_EQ(derive(product, false, nullptr).text, "#62131");
}

TEST_F(Arithmetic, PropagatesAMistakeToTheAnswer) {
  Expression sum;
  sum.operation = '+';
  sum.left = std::make_unique<Expression>();
  sum.right = std::make_unique<Expression>();
  sum.left->value = {1, 2, 3, 4, 5};
  sum.right->value = {6, 6, 2, 1, 0};
  Expression negated;
  negated.operation = '-';
  negated.left = std::make_unique<Expression>(std::move(sum));
  const auto wrong = [&](Mistake mistake) { return derive(negated, true, &mistake).text; };
  EXPECT_EQ(derive(negated, true, nullptr).text, "12345+66210=01555\n-01555=06222\n#06222");
  EXPECT_EQ(wrong({Mistake::digit, 2, 3}), "12345+66210=01155\n-01155=06622\n#06622");
  EXPECT_EQ(wrong({Mistake::digit, 5, 3}), "12345+66210=01555\n-01555=36222\n#36222");
  EXPECT_EQ(wrong({Mistake::operation, 0}), "12345+66210=65640\n-65640=12130\n#12130");
  EXPECT_EQ(wrong({Mistake::skip, 0}), "12345+66210=12345\n-12345=65432\n#65432");
  EXPECT_EQ(wrong({Mistake::skip, 1}), "12345+66210=01555\n-01555=01555\n#01555");
}

TEST_F(Arithmetic, SwapsTheOperandsOfACompositionAsAMistake) {
  Expression composed;
  composed.operation = '@';
  composed.left = std::make_unique<Expression>();
  composed.right = std::make_unique<Expression>();
  composed.left->value = {1, 2, 3, 4, 5};
  composed.right->value = {0, 6, 2, 1, 0};
  const Mistake order{Mistake::order, 0};
  EXPECT_EQ(to_text(derive(composed, true, nullptr).answer), Evaluator("12345@06210").answer());
  EXPECT_EQ(to_text(derive(composed, true, &order).answer), Evaluator("06210@12345").answer());
}

TEST_F(Arithmetic, IsTheSameOnEveryMachineAndAPrefixOfAnyLongerFile) {
  const std::string few = made(config(2));
  EXPECT_EQ(few, made(config(2)));
  EXPECT_EQ(made(config(200)).substr(0, few.size()), few);
  ArithmeticConfig other = config(2);
  other.seed = 1;
  EXPECT_NE(made(other), few);
  ArithmeticConfig small = config(1);
  small.max_operations = 1;
  small.operations = {"negate", "add"};
  EXPECT_EQ(made(small),
            R"({"instruction":"-24061","input":"","output":"-24061=53016\n#53016","task_id":"arithmetic-0/0",)"
            R"("is_correct":true,"metadata":{"difficulty":1,"source":"arithmetic"}})"
            "\n"
            R"({"instruction":"-24061","input":"","output":"-24061=53036\n#53036","task_id":"arithmetic-0/0",)"
            R"("is_correct":false,"metadata":{"difficulty":1,"source":"arithmetic"}})"
            "\n");
}

TEST_F(Arithmetic, MakesEveryExpressionOnlyOnce) {
  for (const auto& operations : {std::vector<std::string>{"negate", "add"}, {"negate"}, {"multiply", "compose"}}) {
    ArithmeticConfig asked = config(20000);
    asked.operations = operations;
    asked.min_operations = 1;
    asked.max_operations = 2;
    asked.answers_wrong = 0;
    std::set<std::string> expressions, ids;
    for (const Json& record : records(asked)) {
      EXPECT_TRUE(expressions.insert(record["instruction"]).second) << record;
      EXPECT_TRUE(ids.insert(record["task_id"]).second) << record;
    }
    EXPECT_EQ(expressions.size(), 20000u);
  }
}

TEST_F(Arithmetic, MakesAllChainsOfNegationsAndRefusesMore) {
  ArithmeticConfig asked = config(2 * 16807);
  asked.operations = {"negate"};
  asked.max_operations = 2;
  asked.answers_wrong = 0;
  asked.steps = false;
  EXPECT_EQ(records(asked).size(), 2u * 16807u);
  asked.problems += 1;
  const std::string message = error_of(ExitStatus::usage, [&] { made(asked); });
  EXPECT_TRUE(has(message, "found problems = 33615, wanted at most 33614")) << message;
}

TEST_F(Arithmetic, DrawsTheNumberOfOperationsUniformlyAsDifficulty) {
  ArithmeticConfig asked = config(5000);
  asked.answers_wrong = 0;
  asked.min_operations = 2;
  asked.max_operations = 6;
  std::map<int64_t, int> times;
  for (const Json& record : records(asked)) {
    const std::string expression = record["instruction"];
    const auto operations = std::count_if(expression.begin(), expression.end(),
                                          [](char c) { return c == '-' || c == '+' || c == '*' || c == '@'; });
    EXPECT_EQ(record["metadata"]["difficulty"], operations);
    ++times[operations];
  }
  ASSERT_EQ(times.size(), 5u);
  for (const auto& [operations, count] : times) EXPECT_NEAR(count, 1000, 150) << operations;
}

TEST_F(Arithmetic, GivesAllAnswersToAProblemTheSameLengthAndDistinctTexts) {
  ArithmeticConfig asked = config(500);
  asked.answers_wrong = 10;
  for (const bool steps : {true, false}) {
    asked.steps = steps;
    std::map<std::string, std::set<std::string>> answers;
    for (const Json& record : records(asked)) answers[record["task_id"]].insert(record["output"]);
    for (const auto& [problem, texts] : answers) {
      EXPECT_EQ(texts.size(), 11u) << problem;
      for (const std::string& text : texts) EXPECT_EQ(text.size(), texts.begin()->size()) << problem;
    }
  }
}

// A rule on surface features gets half of the pairs right: 4,000 fair coins deviate by 0.8%.
TEST_F(Arithmetic, DoesNotRevealTheLabelBySurfaceFeatures) {
  using Rule = std::function<int64_t(const std::string&)>;
  std::map<std::string, Rule> rules{{"length", [](const std::string& text) { return int64_t(text.size()); }},
                                    {"sum of the digits",
                                     [](const std::string& text) {
                                       int64_t sum = 0;
                                       for (const char c : text) sum += c >= '0' && c <= '6' ? c - '0' : 0;
                                       return sum;
                                     }},
                                    {"neighbours alike",
                                     [](const std::string& text) {
                                       int64_t alike = 0;
                                       for (size_t i = 1; i < text.size(); ++i) alike += text[i] == text[i - 1];
                                       return alike;
                                     }},
                                    {"different digits", [](const std::string& text) {
                                       return int64_t(std::set<char>(text.begin(), text.end()).size());
                                     }}};
  for (char digit = '0'; digit <= '6'; ++digit)
    rules[std::string("count of ") + digit] = [digit](const std::string& text) {
      return std::count(text.begin(), text.end(), digit);
    };
  for (const auto& operations :
       {std::vector<std::string>{"negate", "add", "multiply", "compose"}, {"negate", "add", "multiply"}}) {
    ArithmeticConfig asked = config(4000);
    asked.operations = operations;
    asked.max_operations = 3;
    std::map<std::string, std::map<bool, std::string>> pairs;
    for (const Json& record : records(asked)) pairs[record["task_id"]][record["is_correct"]] = record["output"];
    for (const auto& [name, rule] : rules) {
      for (const bool answer_only : {false, true}) {
        double more = 0;
        for (const auto& [problem, pair] : pairs) {
          const auto seen = [&](bool right) { return rule(answer_only ? answer_in(pair.at(right)) : pair.at(right)); };
          more += seen(true) > seen(false) ? 1 : seen(true) == seen(false) ? 0.5 : 0;
        }
        EXPECT_NEAR(more / double(pairs.size()), 0.5, 0.04) << name << (answer_only ? " of the answer" : "");
      }
    }
  }
}

TEST_F(Arithmetic, RefusesProblemsWithoutAnswersOrWithAnEmptyRange) {
  ArithmeticConfig asked = config(1);
  asked.answers_right = asked.answers_wrong = 0;
  EXPECT_TRUE(has(error_of(ExitStatus::usage, [&] { made(asked); }), "wanted at least one answer"));
  asked = config(1);
  asked.min_operations = 6;
  EXPECT_TRUE(has(error_of(ExitStatus::usage, [&] { made(asked); }), "min_operations 6, wanted at most"));
}

TEST_F(Arithmetic, LeavesNothingWhenItCannotWrite) {
  const std::string message =
      error_of(ExitStatus::storage, [&] { write_arithmetic(config(1), at("missing/made.jsonl")); });
  EXPECT_TRUE(has(message, at("missing/made.jsonl")) && has(message, "No such file")) << message;
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace wmtp
