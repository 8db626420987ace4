// Private to runtime/comm/tcp*.c: the sockets between ranks. tcp_join.c makes them, tcp.c moves bytes and listens for
// signs of life.
#ifndef NNC_RUNTIME_COMM_TCP_H
#define NNC_RUNTIME_COMM_TCP_H

#include "runtime/comm/comm.h"

typedef struct TcpPeer {
  int socket;   // for bytes; -1: this rank itself
  int process;
  char host[60];
} TcpPeer;
typedef struct TcpRanks {
  int rank, size;
  double timeout;                 // seconds
  TcpPeer *peers;                 // Owned, per rank
  int sign_next, sign_previous;   // sockets for signs of life: to the next rank, from the one before
} TcpRanks;

// Meets the others at the address of rank 0 and makes a connection to each. False after reporting.
bool tcp_join(const Starter *starter, double timeout, TcpRanks *out);

#endif
