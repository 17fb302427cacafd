"""Settings of a process that the user's code may make for itself."""

import json
import json.encoder
import signal
import socket
import sys
import threading
import warnings


class OnlyTheInternet(socket.socket):  # as libraries for proxies have it
    def __init__(self, family=socket.AF_INET, type=socket.SOCK_STREAM, *args, **options):
        if family == socket.AF_UNIX or type not in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            raise ValueError("this proxy knows streams and datagrams")
        super().__init__(family, type, *args, **options)


socket.socket = OnlyTheInternet
socket.setdefaulttimeout(0.001)
json.encoder.c_make_encoder = None
json.JSONEncoder.default = lambda self, value: "replaced"
sys.set_int_max_str_digits(640)
threading.stack_size(1 << 18)
warnings.simplefilter("error")
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
