#include "study/figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "report/compare.hpp"

namespace wmtp {
namespace {

/// Okabe and Ito's, which people with any colour vision distinguish.
constexpr std::array colours{"#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442"};

/// The titles of the members, each once.
std::vector<std::string> titles_of(const Study& study) {
  std::vector<std::string> titles;
  for (const StudyMember& member : study.members)
    if (std::ranges::find(titles, member.title) == titles.end()) titles.push_back(member.title);
  return titles;
}

const char* colour_of(const Study& study, size_t member) {
  const std::vector<std::string> titles = titles_of(study);
  return colours[size_t(std::ranges::find(titles, study.members[member].title) - titles.begin()) % colours.size()];
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// With a margin of this share on both sides. Values that differ only by rounding count as one, as an axis cannot
  /// divide the range between them.
  Range widened(double share) const {
    if (low > high) return {0, 1};
    const double size = std::max(std::fabs(low), std::fabs(high));
    const double margin = high - low <= 1e-12 * size ? std::max(size, 1.0) * 0.1 : share * (high - low);
    return {low - margin, high + margin};
  }
};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return result;
}

/// About five round numbers in a range: 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks(const Range& range) {
  const double rough = (range.high - range.low) / 4, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
  std::vector<double> found;
  for (double tick = std::ceil(range.low / step); tick * step <= range.high; ++tick)
    found.push_back(tick * step + 0.0);  // not -0
  return found;
}

/// An area with axes, in pixels.
class Panel {
 public:
  Panel(double left, double top, double width, double height, const Range& x, const Range& y)
      : left_(left), top_(top), width_(width), height_(height), x_(x), y_(y) {}

  double x(double value) const { return left_ + width_ * (value - x_.low) / (x_.high - x_.low); }
  double y(double value) const { return top_ + height_ * (y_.high - value) / (y_.high - y_.low); }

  std::string frame() const {
    return printed("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"#999\"/>\n",
                   left_, top_, width_, height_);
  }
  std::string x_axis(const std::string& title) const {
    std::string svg;
    for (const double tick : ticks(x_))
      svg += printed("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", x(tick), x(tick),
                     top_, top_ + height_) +
             label(x(tick), top_ + height_ + 16, "middle", printed("%.4g", tick));
    return svg + label(left_ + width_ / 2, top_ + height_ + 34, "middle", title);
  }
  std::string y_axis() const {
    std::string svg;
    for (const double tick : ticks(y_)) svg += label(left_ - 6, y(tick) + 4, "end", printed("%.4g", tick));
    return svg;
  }
  std::string clip(const std::string& id) const {
    return printed("<clipPath id=\"%s\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n",
                   id.c_str(), left_, top_, width_, height_);
  }
  static std::string label(double x, double y, const char* anchor, const std::string& text) {
    return printed("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor) + escaped(text) + "</text>\n";
  }

 private:
  double left_, top_, width_, height_;
  Range x_, y_;
};

std::string document(double width, double height, const std::string& content) {
  return printed(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
             width, height, width, height) +
         content + "</svg>\n";
}

/// A member's mean over its runs, with the limits of its interval.
struct Point {
  double x, mean, low, high;
};

constexpr int64_t points_of_curve = 60;
constexpr double skipped_share = 0.1;  ///< of a curve's beginning, whose high losses would flatten the rest

/// Over what all runs of the member have spent.
std::vector<Point> curve(const Study& study, const StudyResults& results, size_t member, BudgetUnit unit) {
  std::vector<const StudyResult*> runs;
  double end = std::numeric_limits<double>::infinity();
  for (const StudyResult* run : results_of(study, results, member)) {
    if (!run || run->diverged || run->steps.empty()) continue;
    runs.push_back(run);
    end = std::min(end, spent(*run, unit).back());
  }
  std::vector<Point> points;
  if (runs.empty() || end <= 0) return points;
  for (int64_t i = 0; i <= points_of_curve; ++i) {
    const double x = end * (skipped_share + (1 - skipped_share) * double(i) / double(points_of_curve));
    std::vector<double> values;
    for (const StudyResult* run : runs)
      if (const auto value = value_at(*run, study.metric, unit, std::min(x, end))) values.push_back(*value);
    if (values.size() < runs.size()) continue;
    const MeanAndError of = mean_and_error(values);
    const Interval interval = interval_95(of).value_or(Interval(of.mean, of.mean));
    points.push_back({x, of.mean, interval.first, interval.second});
  }
  return points;
}

std::string path_of(const Panel& panel, const std::vector<Point>& points, double Point::*value) {
  std::string path;
  for (const Point& point : points)
    path += printed("%s%.1f %.1f", path.empty() ? "M" : "L", panel.x(point.x), panel.y(point.*value));
  return path;
}

std::string curve_svg(const Panel& panel, std::vector<Point> points, const std::string& colour,
                      const std::string& clip) {
  if (points.empty()) return "";
  if (points.size() == 1)
    return printed("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", panel.x(points[0].x),
                   panel.y(points[0].mean), colour.c_str());
  const std::string line = path_of(panel, points, &Point::mean), upper = path_of(panel, points, &Point::high);
  std::ranges::reverse(points);
  std::string lower = path_of(panel, points, &Point::low);
  lower[0] = 'L';
  const std::string attributes = std::string("clip-path=\"url(#") + clip + ")\"";
  return "<path " + attributes + " d=\"" + upper + lower + "Z\" fill=\"" + colour +
         "\" fill-opacity=\"0.12\"/>\n<path " + attributes + " d=\"" + line + "\" fill=\"none\" stroke=\"" + colour +
         "\" stroke-width=\"1.6\"/>\n";
}

std::string legend(const Study& study, double left, double top) {
  std::string svg;
  const std::vector<std::string> titles = titles_of(study);
  for (size_t i = 0; i < titles.size(); ++i) {
    const double y = top + 18 * double(i);
    svg += printed("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>\n", left,
                   left + 22, y - 4, y - 4, colours[i % colours.size()]) +
           Panel::label(left + 28, y, "start", titles[i]);
  }
  return svg;
}

/// The members under a condition against this unit. `place`: left, top, width and height in pixels.
std::string curves_panel(const Study& study, const StudyResults& results, const std::string& condition, BudgetUnit unit,
                         const std::array<double, 4>& place, const std::string& clip) {
  std::vector<std::pair<size_t, std::vector<Point>>> curves;
  Range x{0, 0}, y;
  for (size_t i = 0; i < study.members.size(); ++i) {
    if (study.members[i].condition != condition) continue;
    curves.emplace_back(i, curve(study, results, i, unit));
    for (const Point& point : curves.back().second) {
      x.include(point.x);
      y.include(point.mean);
    }
  }
  if (x.high == 0) x.high = 1;
  const Panel panel(place[0], place[1], place[2], place[3], x, y.widened(0.08));
  std::string svg = panel.clip(clip) + panel.x_axis(to_string(unit)) + panel.y_axis();
  for (const auto& [member, points] : curves) svg += curve_svg(panel, points, colour_of(study, member), clip);
  return svg + panel.frame();
}

}  // namespace

std::string curves_svg(const Study& study, const StudyResults& results) {
  constexpr double width = 300, height = 240, left = 60, top = 34, gap = 70, row_height = height + 60;
  constexpr std::array units{BudgetUnit::tokens, BudgetUnit::operations, BudgetUnit::seconds};
  std::string svg;
  for (size_t row = 0; row < study.conditions.size(); ++row) {
    const std::string& condition = study.conditions[row];
    const double above = top + row_height * double(row);
    svg += Panel::label(left, above - 14, "start",
                        study.metric + (condition.empty() ? "" : ", " + condition) +
                            (row == 0 ? ", mean over seeds with 95% intervals" : ""));
    for (size_t k = 0; k < units.size(); ++k)
      svg += curves_panel(study, results, condition, units[k], {left + double(k) * (width + gap), above, width, height},
                          "panel" + std::to_string(row * units.size() + k));
  }
  const double right = left + double(units.size()) * (width + gap) - gap + 20;
  return document(right + 180, top + row_height * double(study.conditions.size()) - 10,
                  svg + legend(study, right, top + 14));
}

std::string differences_svg(const Study& study, const StudyAnalysis& analysis) {
  constexpr double width = 420, left = 330, top = 40, row_height = 24;
  std::vector<const StudyRow*> rows;
  Range x{0, 0};
  for (const StudyRow& row : analysis.rows) {
    if (!row.is_primary || study.is_control(row.member) || row.difference.pairs == 0) continue;
    rows.push_back(&row);
    const Interval interval = row.difference.interval.value_or(Interval(row.difference.mean, row.difference.mean));
    x.include(interval.first);
    x.include(interval.second);
  }
  const double height = row_height * double(std::max<size_t>(rows.size(), 1));
  const Panel panel(left, top, width, height, x.widened(0.08), {0, 1});
  std::string svg = Panel::label(left, 20, "start",
                                 study.metric + " minus " + study.control_title() + ", " +
                                     (study.lower_is_better ? "lower" : "higher") + " is better; 95% intervals");
  svg += panel.x_axis("difference");
  svg += printed("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#000\" stroke-dasharray=\"3 3\"/>\n",
                 panel.x(0), panel.x(0), top, top + height);
  for (size_t i = 0; i < rows.size(); ++i) {
    const StudyRow& row = *rows[i];
    const double y = top + row_height * (double(i) + 0.5);
    svg += Panel::label(left - 8, y + 4, "end", study.members[row.member].name + ", " + title_of(row.budget));
    if (row.difference.interval)
      svg += printed("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>\n",
                     panel.x(row.difference.interval->first), panel.x(row.difference.interval->second), y, y,
                     colour_of(study, row.member));
    svg += printed("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", panel.x(row.difference.mean), y,
                   colour_of(study, row.member));
    svg += Panel::label(left + width + 8, y + 4, "start", to_string(row.verdict));
  }
  return document(left + width + 150, top + height + 50, svg + panel.frame());
}

}  // namespace wmtp
