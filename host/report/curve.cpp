#include "report/curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr int plot_columns = 60, plot_rows = 10;
constexpr int dots_across = 2, dots_down = 4;  // per braille character

struct Frame {
  double left, right, bottom, top;

  static int place(double value, double low, double high, int cells) {
    if (high <= low) return cells / 2;
    return std::clamp(int((value - low) / (high - low) * cells), 0, cells - 1);
  }
  int column(double x, int cells) const { return place(x, left, right, cells); }
  int row(double y, int cells) const { return cells - 1 - place(y, bottom, top, cells); }
};

/// Bits 0..7 of a braille character by column and row of the dot.
constexpr std::array<std::array<uint8_t, dots_down>, dots_across> dot_bits{
    {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};

std::string braille(uint8_t dots) {
  const unsigned code = 0x2800u + dots;
  return {char(0xe0 | (code >> 12)), char(0x80 | ((code >> 6) & 0x3f)), char(0x80 | (code & 0x3f))};
}

Frame frame_around(const Curve& a, const Curve& b) {
  std::vector<CurvePoint> all = a.points;
  all.insert(all.end(), b.points.begin(), b.points.end());
  Frame frame{all[0].x, all[0].x, all[0].y, all[0].y};
  for (const CurvePoint& p : all) {
    frame.left = std::min(frame.left, p.x);
    frame.right = std::max(frame.right, p.x);
    frame.bottom = std::min(frame.bottom, p.y);
    frame.top = std::max(frame.top, p.y);
  }
  return frame;
}

}  // namespace

void print_curve(std::ostream& out, const Curve& line, const Curve& marks, bool blocks) {
  if (line.points.size() + marks.points.size() < 2) return;
  const Frame frame = frame_around(line, marks);
  std::array<std::array<uint8_t, plot_columns>, plot_rows> dots{};
  std::array<std::array<bool, plot_columns>, plot_rows> marked{};
  for (const CurvePoint& p : line.points) {
    const int x = frame.column(p.x, plot_columns * dots_across), y = frame.row(p.y, plot_rows * dots_down);
    dots[size_t(y / dots_down)][size_t(x / dots_across)] |= dot_bits[size_t(x % dots_across)][size_t(y % dots_down)];
  }
  for (const CurvePoint& p : marks.points)
    marked[size_t(frame.row(p.y, plot_rows))][size_t(frame.column(p.x, plot_columns))] = true;
  for (size_t row = 0; row < plot_rows; ++row) {
    const bool labelled = row == 0 || row == plot_rows - 1;
    std::string text = (labelled ? printed("%9.4g", row == 0 ? frame.top : frame.bottom) : std::string(9, ' ')) + " |";
    for (size_t column = 0; column < plot_columns; ++column) {
      const uint8_t dot = dots[row][column];
      text += marked[row][column] ? "o" : dot == 0 ? " " : blocks ? braille(dot) : ".";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << '\n';
  }
  const auto step = [](double x) { return std::to_string(int64_t(x)); };
  const std::string left = step(frame.left), right = step(frame.right);
  const size_t gap = plot_columns - std::min<size_t>(plot_columns - 1, left.size() + right.size());
  out << std::string(10, ' ') << '+' << std::string(plot_columns, '-') << '\n'
      << std::string(11, ' ') << left << std::string(gap, ' ') << right << "  step\n";
  if (!line.points.empty()) out << std::string(11, ' ') << (blocks ? braille(0x36) : ".") << " " << line.name;
  if (!marks.points.empty()) out << (line.points.empty() ? std::string(11, ' ') : "   ") << "o " << marks.name;
  out << '\n';
}

}  // namespace wmtp
