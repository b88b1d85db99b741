"""The MariaDB and MySQL backend."""
