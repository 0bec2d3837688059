// Opens a state directory, writes a synced and a buffered pair, prints "open" and waits until it is
// killed. It is the other process of rocksdb_key_value_store_test.
#include <unistd.h>

#include <cstdio>

#include "store/kv/rocksdb_key_value_store.h"

int main(int, char** arguments) {
  auto store = es::store::open_state_directory(arguments[1]);
  if (!store.ok()) return es::exit_code(store.error().kind);
  es::store::WriteBatch synced, buffered;
  synced.put("synced", "1");
  buffered.put("buffered", "2");
  if (!(*store)->write(synced, es::store::Durability::kSynced).ok()) return 1;
  if (!(*store)->write(buffered, es::store::Durability::kBuffered).ok()) return 1;
  std::puts("open");
  std::fflush(stdout);
  for (;;) ::pause();
}
