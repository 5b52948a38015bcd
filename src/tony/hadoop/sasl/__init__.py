"""The two SASL mechanisms that Hadoop knows: DIGEST-MD5 for tokens, GSSAPI for Kerberos; and what they wrap with."""
