"""Client profiles: what is known of the programs in front of the proxy, as data (`rules/clients/*.yaml`).

`profile_schema` says what may be written, `profile_files` reads it, `merge` puts it together, `book` recognises a client
by its request, `session` finds the conversation in it, `profile_examples` proves a profile.
"""
