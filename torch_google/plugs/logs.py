# SPDX-License-Identifier: Apache-2.0
"""torch/_seam/logs.py: logs and traces whose path is one of gfile's."""

import logging


def plug() -> None:
    """Plug the answers in. What they need is imported when they are asked."""
    from torch._seam import logs

    logs.file_handler.plug(_file_handler)
    logs.trace_directory.plug(_trace_directory)


def _file_handler(path: str) -> logging.Handler:
    from torch._seam import logs

    if "://" not in path:
        return logs.file_handler.upstream(path)
    from torch_google.logging.log_files import remote_log

    return remote_log(path)


def _trace_directory(path: str) -> str:
    if "://" not in path:
        return path
    from torch_google.logging.traces import stage

    return stage(path)
