#pragma once
// LiveScreen: a screen that is drawn again and again, until the user presses q or sends a stop
// signal. It uses the alternate screen of the terminal, so that what was there before comes back.
//
// Standard input gives the keys, standard output is drawn on. Not thread-safe. Create it before the
// process has threads (StopSignals).
#include <termios.h>

#include <chrono>
#include <functional>
#include <optional>

#include "actors/esctl/client/client.h"
#include "actors/esctl/client/stop_signals.h"
#include "actors/views/console.h"
#include "actors/views/screen.h"

namespace es::actors::esctl {

class LiveScreen {
 public:
  // REQUIRES: has_screen(console).
  explicit LiveScreen(Console& console);
  // Restores the terminal.
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  // Ends the waits of a client when a stop signal arrives. Valid as long as this object.
  Interrupt interrupt();

  // Draws what `make` returns for the size of the terminal, at once, every `interval` and when the
  // size changes. Returns the exit code: 0 after q, 128 + N after signal N.
  int run(const std::function<Screen(ScreenSize)>& make, std::chrono::milliseconds interval);

 private:
  void draw(const Screen& screen, ScreenSize size);
  // Waits until it is time to draw again. Returns whether the user wants to end.
  bool wait(std::chrono::milliseconds interval);
  bool read_keys();

  Console& console_;
  StopSignals signals_;
  std::optional<termios> before_;  // of the terminal at standard input, if that is one
  bool has_keys_ = true;           // standard input is not at its end
};

}  // namespace es::actors::esctl
