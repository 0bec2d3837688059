#include "actors/esctl/client/live_screen.h"

#include <poll.h>
#include <unistd.h>

#include <array>

namespace es::actors::esctl {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearRestOfLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

// Keys arrive one by one and are not shown. Signals of keys such as Ctrl-C stay.
std::optional<termios> take_keys() {
  termios before{};
  if (::tcgetattr(STDIN_FILENO, &before) != 0) return {};
  termios raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return {};
  return before;
}

}  // namespace

LiveScreen::LiveScreen(Console& console)
    : console_(console), before_(take_keys()), has_keys_(before_.has_value()) {
  write_control(console_.out, kEnter);
}

LiveScreen::~LiveScreen() {
  write_control(console_.out, kLeave);
  if (before_) ::tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

void LiveScreen::draw(const Screen& screen, ScreenSize size) {
  // Everything is written at once and over the old text, so nothing flickers.
  std::string all(kHome);
  for (int row = 0; row < size.rows && row < static_cast<int>(screen.size()); ++row) {
    if (row > 0) all += "\r\n";
    all += ansi_line(screen[static_cast<std::size_t>(row)], size.columns);
    all += kClearRestOfLine;
  }
  if (static_cast<int>(screen.size()) < size.rows) all += "\r\n" + std::string(kClearBelow);
  write_control(console_.out, all);
}

bool LiveScreen::read_keys() {
  std::array<char, 64> keys;
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count <= 0) has_keys_ = false;
  for (ssize_t i = 0; i < count; ++i)
    if (keys[static_cast<std::size_t>(i)] == 'q') return true;
  return false;
}

Interrupt LiveScreen::interrupt() {
  return {.fd = signals_.fd(), .raised = [this] {
            signals_.take();
            return signals_.first() != 0;
          }};
}

bool LiveScreen::wait(std::chrono::milliseconds interval) {
  // It may have arrived while a client waited.
  if (signals_.first() != 0) return true;
  std::array<pollfd, 2> fds{
      {{signals_.fd(), POLLIN, 0}, {has_keys_ ? STDIN_FILENO : -1, POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(interval.count()));
  signals_.take();
  if (signals_.first() != 0) return true;
  return fds[1].revents != 0 && read_keys();
}

int LiveScreen::run(const std::function<Screen(ScreenSize)>& make,
                    std::chrono::milliseconds interval) {
  for (;;) {
    const ScreenSize size = console_.out_screen().value_or(ScreenSize{});
    draw(make(size), size);
    if (wait(interval)) return signals_.first() == 0 ? 0 : 128 + signals_.first();
  }
}

}  // namespace es::actors::esctl
