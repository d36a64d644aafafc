"""Decides who may use which scope, what is personal or forbidden, what is learned and forgotten."""
