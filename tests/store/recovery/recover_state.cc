// Recovers a state directory, unless a kill point ends it before. It is the other process of
// damage_test.
#include "store/recovery/recover.h"

int main(int, char** arguments) {
  const auto recovery = es::store::recover_state_directory(arguments[1]);
  return recovery.ok() ? 0 : es::exit_code(recovery.error().kind);
}
