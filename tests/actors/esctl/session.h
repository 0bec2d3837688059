#pragma once
// Session runs command lines in this process and keeps their output.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "actors/esctl/esctl.h"

namespace es::actors::test {

class Session {
 public:
  // The width of the terminal behind standard error, in columns; 0: no terminal.
  explicit Session(int columns = 0) : console_{out_, err_, [columns] { return columns; }} {}

  // Returns the exit code. The output of the last call is dropped first.
  int run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    return esctl::run_esctl(std::move(arguments), console_);
  }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

 private:
  std::ostringstream out_, err_;
  Console console_;
};

// A short job on made-up images that needs no file. `more` is inserted before its tables.
inline std::string job_toml(const std::string& more = "steps = 60\n") {
  return "name = \"cnn\"\nmax_p = 4\nbatch_size = 2\nlevel = \"D2\"\n" + more +
         "[data]\nheight = 8\nwidth = 8\nsamples = 64\neval_samples = 16\n";
}

}  // namespace es::actors::test
