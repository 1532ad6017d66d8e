#!/usr/bin/env bash
# Prints ON where an NVIDIA driver is present, OFF elsewhere: the demo compiles CUDA objects only where they can run.
if [ -e /dev/nvidia0 ] || [ -e /proc/driver/nvidia/version ]; then echo ON; else echo OFF; fi
