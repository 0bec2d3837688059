// Stands for a Python interpreter with a loader process: computes the samples of a dataset of 12
// training and 5 evaluation samples, with the inputs x f32 [2] and label i32. The file of the
// dataset says what it does besides:
//
//   normal                      nothing
//   ends FILE TIMES INDEX CODE  ends at sample INDEX with the exit code, or by the signal -CODE, as
//                               long as FILE has fewer than TIMES bytes; each end adds one
//   ends_first FILE TIMES       the same before its first message
//   silent INDEX                never computes sample INDEX
//   closes INDEX                closes its socket at sample INDEX and runs on
//   label INDEX VALUE           the label of sample INDEX
//   longer                      has 13 training samples
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Behaviour {
  std::string what, file;
  std::uintmax_t times = 0;
  std::uint64_t index = 0;
  int code = 0;
};

Behaviour read_behaviour(const std::string& descriptor) {
  std::ifstream in("/dev/fd/" + descriptor);
  Behaviour b;
  in >> b.what;
  if (b.what.starts_with("ends")) in >> b.file >> b.times;
  in >> b.index >> b.code;
  return b;
}

void end_if_wanted(const Behaviour& b, int code) {
  std::error_code none;
  const auto ended = std::filesystem::exists(b.file) ? std::filesystem::file_size(b.file) : 0;
  if (ended >= b.times) return;
  std::ofstream(b.file, std::ios::app) << 'x';
  if (code < 0) ::raise(-code);
  ::_exit(code);
}

[[noreturn]] void wait_forever() {
  for (;;) ::pause();
}

// The message with this header and the bytes after it.
void say(int socket, std::uint32_t kind, std::uint32_t position, const std::string& rest = {}) {
  std::string message(8, '\0');
  std::memcpy(message.data(), &kind, 4);
  std::memcpy(message.data() + 4, &position, 4);
  message += rest;
  if (::send(socket, message.data(), message.size(), MSG_NOSIGNAL) < 0) ::_exit(0);
}

std::string lengths(const Behaviour& b) {
  const std::uint64_t counts[] = {b.what == "longer" ? 13U : 12U, 5U};
  std::string text(sizeof counts, '\0');
  std::memcpy(text.data(), counts, sizeof counts);
  return text + std::string{'\0', '\1'};
}

void compute(const Behaviour& b, int socket, std::uint64_t epoch, std::uint64_t index,
             std::uint8_t* place) {
  if (index == b.index && b.what == "ends") end_if_wanted(b, b.code);
  if (index == b.index && b.what == "silent") wait_forever();
  if (index == b.index && b.what == "closes") {
    ::close(socket);
    wait_forever();
  }
  const float x[] = {static_cast<float>(1000 * epoch + index), 0.5F};
  auto label = static_cast<std::int32_t>(index % 3);
  if (index == b.index && b.what == "label") label = b.code;
  std::memcpy(place, x, sizeof x);
  std::memcpy(place + sizeof x, &label, sizeof label);
}

}  // namespace

int main(int count, char** words) {
  if (count != 8) return 2;
  const int socket = std::atoi(words[4]), descriptor = std::atoi(words[5]);
  const Behaviour b = read_behaviour(words[6]);
  if (b.what == "ends_first") end_if_wanted(b, 5);
  std::array<std::uint8_t, 4096> message{};
  if (::recv(socket, message.data(), message.size(), 0) <= 0) return 0;
  std::uint32_t samples = 0;
  std::uint64_t sample_bytes = 0;
  std::memcpy(&samples, message.data() + 4, sizeof samples);
  std::memcpy(&sample_bytes, message.data() + 16, sizeof sample_bytes);
  void* const mapped = ::mmap(nullptr, samples * (8 + sample_bytes), PROT_READ | PROT_WRITE,
                              MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return 2;
  auto* const memory = static_cast<std::uint8_t*>(mapped);
  say(socket, 1, 0, lengths(b));
  while (::recv(socket, message.data(), message.size(), 0) > 0) {
    std::uint32_t wanted = 0;
    std::uint64_t epoch = 0;
    std::memcpy(&wanted, message.data() + 8, sizeof wanted);
    std::memcpy(&epoch, message.data() + 12, sizeof epoch);
    for (std::uint32_t position = 0; position < wanted; ++position) {
      std::uint64_t index = 0;
      std::memcpy(&index, memory + 8 * position, sizeof index);
      compute(b, socket, epoch, index, memory + 8 * samples + position * sample_bytes);
      say(socket, 2, position);
    }
  }
  return 0;
}
